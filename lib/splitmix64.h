// SplitMix64 (Steele, Lea and Flood 2014), where numbers are to look random.
#pragma once
#include <cstdint>

namespace runnel {

constexpr std::uint64_t splitmix64_step = 0x9e3779b97f4a7c15u;

// A bijection in which every bit of the result depends on every bit of x.
constexpr std::uint64_t splitmix64_mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The number after the state `counter`, as a function of it.
constexpr std::uint64_t splitmix64(std::uint64_t counter) noexcept {
  return splitmix64_mix(counter + splitmix64_step);
}

}  // namespace runnel
