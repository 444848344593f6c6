// Where packed int8 matrices (quant/i8.h) lie in a GGUF file. Such a file has what every GGUF file of its model has,
// with these differences; tools that know GGUF but not runnel can list it.
//
//   general.alignment = 64 (u32)         codes and scales begin at multiples of 64 bytes, where kernels read them
//   runnel.packed.version = 1 (u32)      this layout; a file without the key has no packed matrices
//   runnel.packed.n_vocab (u32)          rows of token_embd.weight, which the padding hides
//
// A matrix NAME [n_rows, n_cols] (rows are outputs), or n_matrix of them in one tensor (experts), is two tensors:
//
//   NAME         I8, dims [n_cols_4, n_rows_16] (or [n_cols_4, n_rows_16, n_matrix])
//                n_cols_4 is n_cols rounded up to a multiple of 4, n_rows_16 is n_rows rounded up to one of 16. The
//                bytes are the panels of quant/i8.h one after another, not rows: [n_rows_16 / 16][n_cols_4 / 4][16][4]
//   NAME_scales  dims [16, n_group, n_rows_16 / 16] (or [..., n_matrix]): one scale a row and group of inputs,
//                n_group = ceil(n_cols / group). The type tells the group:
//                  BF16  groups of 128 inputs: runnel's own
//                  F16   groups of 32: what Q8_0 holds, without loss
//
// so NAME is for instance blk.0.ffn_down.weight and its scales blk.0.ffn_down.weight_scales. Matrices that are not
// packed (a mixture's router) and vectors (norms, biases) are plain tensors.
#pragma once
#include <string>
#include <string_view>

#include "lib/io/gguf.h"
#include "lib/io/gguf_writer.h"
#include "lib/result.h"
#include "quant/i8.h"

namespace runnel {

constexpr std::uint32_t packed_alignment = 64;
constexpr const char* packed_version_key = "runnel.packed.version";
constexpr const char* packed_n_vocab_key = "runnel.packed.n_vocab";

// Whether the file has packed matrices. An error when it is of a later version, or when its alignment is not 64.
Result<bool> is_packed(const GgufFile& file);

// Rows of token_embd.weight.
Result<std::size_t> packed_n_vocab(const GgufFile& file);

// Packed matrices as the file has them: n_matrix of them of the same shape, one after another.
struct PackedMatrices {
  quant::I8Kind kind;
  std::size_t n_rows, n_cols, n_matrix;
  const std::int8_t* codes;     // aligned to 64 bytes, as are the scales
  const std::uint16_t* scales;  // bf16 or f16, by kind

  const std::int8_t* matrix_codes(std::size_t i) const { return codes + i * quant::i8_code_bytes(n_rows, n_cols); }
  const std::uint16_t* matrix_scales(std::size_t i) const {
    return scales + i * quant::i8_n_scales(kind, n_rows, n_cols);
  }
};

// Whether tensor `name` ("blk.0.attn_q.weight") is there and packed.
bool has_packed(const GgufFile& file, std::string_view name);

// The matrices of tensor `name`, both its tensors checked against the shape; has_packed(file, name) holds.
Result<PackedMatrices> find_packed(const GgufFile& file, std::string_view name, std::size_t n_rows, std::size_t n_cols,
                                   std::size_t n_matrix = 1);

// ---- writing

// Declares both tensors of a matrix. is_stack: a third dimension, even for n_matrix = 1.
Result<void> add_packed(GgufWriter& writer, std::string_view name, quant::I8Kind kind, std::size_t n_rows,
                        std::size_t n_cols, std::size_t n_matrix, bool is_stack);

}  // namespace runnel
