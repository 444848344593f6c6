#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

// Speed is told from the count: it must be that of the rounds asked for, no more and no less.
void check_count(std::uint64_t (*peak)(size_t n) noexcept, Report& report) {
  const std::uint64_t round = peak(1);
  report.expect(round > 0, "a round makes no multiply-add");
  report.expect(peak(0) == 0, "no rounds make %llu", static_cast<unsigned long long>(peak(0)));
  for (const size_t n : {2u, 3u, 17u, 1000u, 100'003u}) {
    report.expect(peak(n) == n * round, "%zu rounds of %llu make %llu", n,
                  static_cast<unsigned long long>(round), static_cast<unsigned long long>(peak(n)));
  }
}

}  // namespace

void check_read_words(const Kernels& kernels, Report& report) {
  Random random;
  std::vector<size_t> sizes = {1000, 4096, 10'007};
  for (size_t n = 0; n <= 130; ++n) sizes.push_back(n);
  for (const size_t n : sizes) {
    Guarded<std::uint64_t> words(n);
    std::uint64_t expected = 0;
    for (std::uint64_t& word : words) {
      word = std::uint64_t{random.bits()} << 32 | random.bits();
      expected ^= word;
    }
    for (const size_t n_streams : {1u, 2u, 4u}) {
      for (const size_t ahead : {0u, 512u}) {
        report.expect(kernels.read_words(words.data(), n, n_streams, ahead) == expected,
                      "n = %zu, %zu streams, %zu ahead", n, n_streams, ahead);
      }
    }
  }
}

void check_peak_f32(const Kernels& kernels, Report& report) { check_count(kernels.peak_f32, report); }
void check_peak_i8(const Kernels& kernels, Report& report) { check_count(kernels.peak_i8, report); }
void check_peak_i16(const Kernels& kernels, Report& report) { check_count(kernels.peak_i16, report); }

}  // namespace runnel::simd
