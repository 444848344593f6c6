// What a program allocates through operator new, counted and refused: link allocations.cpp into it.
#pragma once
#include <cstddef>

namespace runnel::test {

// Since the program began.
std::size_t n_allocations();

// Bytes that are in use now.
std::size_t allocated_bytes();

// The most bytes that were in use at once since the last reset, beyond those in use at the reset.
std::size_t allocation_peak();
void reset_allocation_peak();

// After n more allocations those that follow are refused: one, or all until the next call of this.
enum class Refuse { one, all };
void refuse_allocations_after(long n, Refuse which);
void allow_allocations();

}  // namespace runnel::test
