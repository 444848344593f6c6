// Rotary position embedding (Su et al. 2021, RoFormer, eq. 34) with the scalings models are trained with:
// linear (Chen et al. 2023), per-frequency factors (Llama 3, LongRoPE: Ding et al. 2024), YaRN (Peng et al.
// 2023).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace runnel {

struct RopeParams {
  std::size_t n_rot = 0;  // dimensions of a head that are rotated, even
  double base = 10000.0;
  double scale = 1.0;          // of positions: 1 / factor
  std::vector<float> factors;  // [n_rot / 2] divide the frequencies, or empty
  double magnitude = 1.0;      // of cos and sin: YaRN's and LongRoPE's attention factor
  bool yarn = false;
  double n_ctx_original = 0;  // context of the first training, tokens (YaRN)
  double beta_fast = 32.0, beta_slow = 1.0;
};

class Rope {
 public:
  Rope() = default;
  explicit Rope(const RopeParams& params);

  std::size_t n_pairs() const { return frequencies_.size(); }

  // cos, sin: [n_pairs]. In double, so that the angle at position 10^9 is as good as the one at 10.
  void angles(std::int64_t position, float* cos, float* sin) const noexcept;

 private:
  std::vector<double> frequencies_;  // radians a token
  double magnitude_ = 1.0;
};

}  // namespace runnel
