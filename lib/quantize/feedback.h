// Rounding with error feedback: what rounding one weight of a row to int8 does to the row's product with real
// inputs is made good by the weights not yet rounded (GPTQ: Frantar et al. 2023). Feedback stays inside
// groups of 128 inputs, by which nearly all of the gain is kept and the second moments of a layer take n_cols
// * 512 bytes, not n_cols^2.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/system/parallel.h"
#include "quant/i8.h"

namespace runnel {

constexpr std::size_t feedback_group = 128;

// Sums over tokens of x[i] x[j] for i <= j within a group of inputs. Groups follow one another as [128, 128],
// the last too, of which its first rows and columns are used.
struct SecondMoments {
  std::size_t n_cols = 0;
  std::size_t n_tokens = 0;
  std::vector<float> sums;  // [n_groups, 128, 128], j < i unused

  static std::size_t n_sums(std::size_t n_cols) { return filled_up(n_cols, feedback_group) * feedback_group; }
  std::vector<double> rms() const;  // of each input [n_cols]
};

class Feedback {
 public:
  // factors: [n_cols] by which the matrix's columns were multiplied (its inputs are divided by them), or
  // empty.
  Feedback(Team& team, const SecondMoments& moments, std::span<const float> factors);

  // Scales as quantize_row_i8() chooses them; w [n_cols], finite, becomes what was left to round.
  void quantize_row(std::int8_t* codes, std::uint16_t* scales, float* w,
                    quant::VariantI8 variant) const noexcept;

 private:
  std::size_t n_cols_;
  // [n_groups, 128, 128]: [i, j] of i's error goes to j > i; all 0 where it cannot be told.
  std::vector<float> shares_;
};

}  // namespace runnel
