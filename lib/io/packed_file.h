// Where packed int8 matrices (quant/i8.h) lie in a GGUF file. Such a file has what every GGUF file of its
// model has, with these differences; tools that know GGUF but not runnel can list it.
//
//   general.alignment = 64 (u32)      codes and scales begin at multiples of 64 bytes, as kernels read them
//   runnel.packed.version = 1 (u32)   this layout; a file without the key has no packed matrices
//   runnel.packed.n_vocab (u32)       rows of token_embd.weight, which the padding hides
//
// A matrix NAME [n_rows, n_cols] (rows are outputs), or a stack of them in one tensor (experts), is two
// tensors:
//
//   NAME         I8, dims [n_cols_4, n_rows_16] (a stack: [n_cols_4, n_rows_16, n_matrix])
//                n_cols_4 is n_cols rounded up to a multiple of 4, n_rows_16 is n_rows rounded up to one
//                of 16. The bytes are the panels of quant/i8.h one after another, not rows:
//                [n_rows_16 / 16][n_cols_4 / 4][16][4]
//   NAME_scales  dims [16, n_groups, n_rows_16 / 16] (a stack: [..., n_matrix]), in the order of quant/i8.h.
//                The type tells the variant:
//                  BF16  g128: groups of 128 inputs, runnel's own
//                  F16   g32: groups of 32, what Q8_0 holds, without loss
//
// so NAME is for instance blk.0.ffn_down.weight and its scales blk.0.ffn_down.weight_scales. Matrices that
// are not packed (a mixture's router) and vectors (norms, biases) are plain tensors.
#pragma once
#include <string>
#include <string_view>

#include "lib/io/gguf.h"
#include "lib/io/gguf_writer.h"
#include "lib/result.h"
#include "quant/i8.h"

namespace runnel {

constexpr std::uint32_t packed_alignment = 64;
constexpr std::uint32_t packed_version = 1;
constexpr const char* packed_version_key = "runnel.packed.version";
constexpr const char* packed_n_vocab_key = "runnel.packed.n_vocab";

// Whether the file has packed matrices. An error when it does in a layout that is not known here.
Result<bool> is_packed(const GgufFile& file);

// Rows of token_embd.weight in a packed file.
Result<std::size_t> packed_n_vocab(const GgufFile& file);

// The tensor of a packed matrix's scales, by that of its codes.
std::string packed_scales_name(std::string_view name);

// Whether the tensor is a packed matrix's codes. In a file that is not packed none is.
bool has_packed(const GgufFile& file, std::string_view name);

// Whether it is that, or the scales of one.
bool is_packed_part(const GgufFile& file, std::string_view name);

// Matrices of the same shape as the file has them, one after another.
struct PackedStack {
  quant::PanelsI8 first;
  std::size_t n_matrix;

  quant::PanelsI8 matrix(std::size_t i) const {
    return {first.shape, first.codes + i * first.shape.n_codes(), first.scales + i * first.shape.n_scales()};
  }
};

// The matrices of tensor `name` ("blk.0.attn_q.weight") and its scales, both checked against what is
// expected; every row's scale is finite. n_matrix 0: one matrix, not in a stack.
Result<PackedStack> find_packed(const GgufFile& file, std::string_view name, std::size_t n_rows,
                                std::size_t n_cols, std::size_t n_matrix = 0);

// ---- writing

// The keys above, to a file that will have packed matrices.
Result<void> add_packed_keys(GgufWriter& writer, std::size_t n_vocab);

// Declares the two tensors of a matrix (n_matrix 0) or stack: their data are all codes, then all scales.
Result<void> add_packed(GgufWriter& writer, std::string_view name, const quant::ShapeI8& shape,
                        std::size_t n_matrix = 0);

}  // namespace runnel
