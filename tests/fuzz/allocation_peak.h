// Counts what a program has allocated through operator new: link allocation_peak.cpp into it.
#pragma once
#include <cstddef>

namespace runnel::test {

// The most bytes that were in use at once since the last reset, beyond those in use at the reset.
std::size_t allocation_peak();
void reset_allocation_peak();

}  // namespace runnel::test
