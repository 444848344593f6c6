// Memory for activations in int8, in int16 or in bf16.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/aligned.h"
#include "quant/activations.h"
#include "simd/kernels.h"

namespace runnel {

// Room for the rows of a batch, as the kernels read them, whatever their width up to max_cols.
template <class Code>
class ActivationBuffer {
 public:
  ActivationBuffer(const simd::Kernels& kernels, std::size_t max_tok, std::size_t max_cols)
      : codes_(n_places(max_tok, max_cols) * quant::i8_block),
        scales_(n_places(max_tok, max_cols)),
        offsets_(is_int8 ? scales_.size() : 0),
        bases_(offsets_.size()),
        group_bases_(offsets_.size()),
        split_(has_split(kernels) ? scales_.size() * quant::i8_split : 0),
        carried_(max_tok * quant::i8_max_carried(max_cols)),
        n_carried_(max_tok),
        maxima_(max_tok * quant::i8_blocks(max_cols)),
        least_raised_(kernels.least_raised_i8()) {}

  quant::Activations<Code> of(std::size_t n_tok, std::size_t n_cols) noexcept {
    return {n_cols,
            quant::i8_width(n_tok),
            codes_.data(),
            scales_.data(),
            offsets_.data(),
            bases_.data(),
            group_bases_.data(),
            carried_.data(),
            n_carried_.data(),
            maxima_.data(),
            split_.empty() ? nullptr : split_.data(),
            is_int8 && n_tok >= least_raised_};
  }

  static std::size_t n_bytes(const simd::Kernels& kernels, std::size_t max_tok, std::size_t max_cols) {
    const std::size_t for_each_place = quant::i8_block * sizeof(Code) + sizeof(float) +
                                       (is_int8 ? sizeof(std::int32_t) + 2 * sizeof(float) : 0) +
                                       (has_split(kernels) ? quant::i8_split : 0);
    const std::size_t for_each_token = quant::i8_max_carried(max_cols) * sizeof(quant::CarriedEntry) +
                                       sizeof(std::uint32_t) + quant::i8_blocks(max_cols) * sizeof(float);
    return n_places(max_tok, max_cols) * for_each_place + max_tok * for_each_token;
  }

 private:
  static constexpr bool is_int8 = sizeof(Code) == 1;
  static bool has_split(const simd::Kernels& kernels) noexcept { return is_int8 && kernels.reads_split_i8(); }
  // One for each block of each token.
  static std::size_t n_places(std::size_t max_tok, std::size_t max_cols) noexcept {
    return quant::i8_room(max_tok) * quant::i8_blocks(max_cols);
  }

  AlignedVector<Code> codes_;
  AlignedVector<float> scales_;
  AlignedVector<std::int32_t> offsets_;       // of int8
  AlignedVector<float> bases_, group_bases_;  // of int8
  AlignedVector<std::int8_t> split_;          // of int8, where the kernels read it
  std::vector<quant::CarriedEntry> carried_;
  std::vector<std::uint32_t> n_carried_;
  std::vector<float> maxima_;
  std::size_t least_raised_;  // of int8: from so many tokens on the kernels read raised codes
};
using Int8Buffer = ActivationBuffer<std::int8_t>;
using Int16Buffer = ActivationBuffer<std::int16_t>;

class Bf16Buffer {
 public:
  Bf16Buffer(std::size_t max_tok, std::size_t max_cols) : values_(n_values(max_tok, max_cols)) {}

  quant::ActivationsBf16 of(std::size_t n_tok, std::size_t n_cols) noexcept {
    return {n_cols, quant::bf16_width(n_tok), values_.data()};
  }

  static std::size_t n_bytes(std::size_t max_tok, std::size_t max_cols) {
    return n_values(max_tok, max_cols) * sizeof(std::uint16_t);
  }

 private:
  static std::size_t n_values(std::size_t max_tok, std::size_t max_cols) {
    return quant::bf16_room(max_tok) * quant::i8_padded(max_cols);
  }

  AlignedVector<std::uint16_t> values_;
};

}  // namespace runnel
