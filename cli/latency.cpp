#include "latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cli {
namespace {

constexpr int precision_bits = 8;  // of a time's leading digits
constexpr std::uint64_t n_steps = std::uint64_t{1} << precision_bits;
constexpr int longest_bits = 40;  // of the longest time told from longer ones, ns

// Times below 2 * n_steps each have a bin of their own; above, every doubling has n_steps bins.
std::size_t bin_of(std::uint64_t ns) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(ns)) - precision_bits - 1);
  return static_cast<std::size_t>(static_cast<std::uint64_t>(shift) * n_steps + (ns >> shift));
}

// The longest time of a bin.
double bin_end(std::size_t bin) {
  const std::uint64_t shift = bin < 2 * n_steps ? 0 : bin / n_steps - 1;
  return static_cast<double>(((bin - shift * n_steps + 1) << shift) - 1);
}

constexpr std::uint64_t longest = (std::uint64_t{1} << longest_bits) - 1;

}  // namespace

Latency::Latency() : counts_(bin_of(longest) + 1) {}

void Latency::add(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  ++counts_[bin_of(std::min(static_cast<std::uint64_t>(ns), longest))];
  ++n_;
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ += static_cast<double>(ns);
}

double Latency::mean_us() const { return n_ > 0 ? sum_ns_ / static_cast<double>(n_) / 1e3 : 0.0; }

double Latency::quantile_us(double share) const {
  if (n_ == 0) return 0.0;
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(n_)));
  std::int64_t n_so_far = 0;
  std::size_t bin = 0;
  while (bin + 1 < counts_.size() && n_so_far + counts_[bin] < wanted) n_so_far += counts_[bin++];
  return std::min(bin_end(bin) / 1e3, max_us());
}

Json Latency::report() const {
  return {{"n", n_},
          {"mean_us", mean_us()},
          {"median_us", quantile_us(0.5)},
          {"p99_us", quantile_us(0.99)},
          {"p99_9_us", quantile_us(0.999)},
          {"max_us", max_us()}};
}

}  // namespace cli
