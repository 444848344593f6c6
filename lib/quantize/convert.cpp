#include "lib/quantize/convert.h"

#include <algorithm>
#include <cmath>

#include "lib/io/gguf_writer.h"
#include "lib/quantize/copy_tensor.h"
#include "lib/quantize/weight_rows.h"
#include "lib/work.h"
#include "quant/float16.h"

namespace runnel {
namespace {

using quant::TensorType;
using quant::TypeInfo;

constexpr const char* file_type_key = "general.file_type";
constexpr const char* version_key = "general.quantization_version";
constexpr std::uint32_t quantization_version = 2;  // of ggml's block formats

// llama.cpp's number for "mostly of this type".
std::uint32_t file_type(TensorType type) {
  switch (type) {
    case TensorType::f16:
      return 1;
    case TensorType::q8_0:
      return 7;
    default:
      return 0;
  }
}

const TypeInfo& new_type(const GgufTensor& tensor, TensorType type) {
  if (!tensor.type->holds_weights()) return *tensor.type;
  if (tensor.rank == 1 || type == TensorType::f32) return quant::type_info(TensorType::f32);
  const std::string_view name = tensor.name;
  const bool is_matrix = name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
                         name != "position_embd.weight" && !name.ends_with("ffn_gate_inp.weight");
  if (!is_matrix) return *tensor.type;
  const TypeInfo& wanted = quant::type_info(type);
  return tensor.dims[0] % wanted.block_size == 0 ? wanted : quant::type_info(TensorType::f16);
}

// The largest number whose like the type can hold: of q8_0 the scale is f16.
float max_value(const TypeInfo& type) {
  if (type.type == TensorType::f16) return quant::f16_max;
  return type.type == TensorType::q8_0 ? quant::int8_most * quant::f16_max : INFINITY;
}

class Converter {
 public:
  Converter(const GgufFile& file, TensorType type, GgufWriter writer, const Quantization& how,
            const simd::Kernels& kernels, std::size_t n_threads)
      : file_(file),
        type_(type),
        team_(n_threads),
        rows_(file, team_, kernels),
        writer_(std::move(writer)),
        work_(how.on_progress, n_numbers(file)) {}

  Result<void> convert() {
    RUNNEL_TRY(declare());
    for (const GgufTensor& tensor : file_.tensors()) {
      const TypeInfo& type = new_type(tensor, type_);
      const bool is_same = type.type == tensor.type->type;
      RUNNEL_TRY(is_same ? copy_tensor(file_, tensor, writer_, work_) : encode(tensor, type));
    }
    return writer_.finish();
  }

 private:
  static double n_numbers(const GgufFile& file) {
    double n = 0;
    for (const GgufTensor& tensor : file.tensors()) n += static_cast<double>(n_rows(tensor) * tensor.dims[0]);
    return n;
  }

  Result<void> declare() {
    const auto is_new = [](std::string_view key) {
      return key == file_type_key || key == version_key || key == gguf_alignment_key;
    };
    for (const auto& [key, value] : file_.metadata())
      if (!is_new(key)) RUNNEL_TRY(writer_.add(key, value));
    // A file may give it in any type of integer, but is to give it as u32.
    if (file_.alignment() != gguf_default_alignment)
      RUNNEL_TRY(writer_.add(gguf_alignment_key, static_cast<std::uint32_t>(file_.alignment())));
    RUNNEL_TRY(writer_.add(file_type_key, file_type(type_)));
    if (type_ == TensorType::q8_0) RUNNEL_TRY(writer_.add(version_key, quantization_version));
    for (const GgufTensor& tensor : file_.tensors())
      RUNNEL_TRY(writer_.add_tensor(tensor.name, new_type(tensor, type_),
                                    std::span(tensor.dims).first(tensor.rank)));
    return {};
  }

  Result<void> encode(const GgufTensor& tensor, const TypeInfo& type) {
    const std::size_t n_cols = tensor.dims[0], block = WeightRows::block_rows(n_cols);
    const std::size_t row_bytes = quant::row_bytes(type, n_cols);
    for (std::size_t begin = 0; begin < n_rows(tensor); begin += block) {
      const std::size_t n = std::min(block, n_rows(tensor) - begin);
      RUNNEL_ASSIGN(const float* values, rows_.read(tensor, begin, n));
      RUNNEL_TRY(check_range(tensor, type, values, begin, n));
      encoded_.resize(n * row_bytes);
      team_.run([&](Thread& thread) {
        const Range own = thread.split(n);
        for (std::size_t r = own.begin; r < own.end; ++r)
          type.encode(encoded_.data() + r * row_bytes, values + r * n_cols, n_cols);
      });
      RUNNEL_TRY(writer_.write(encoded_));
      RUNNEL_TRY(work_.advance(static_cast<double>(n * n_cols)));
    }
    return {};
  }

  Result<void> check_range(const GgufTensor& tensor, const TypeInfo& type, const float* values,
                           std::size_t begin, std::size_t n) const {
    const std::size_t n_cols = tensor.dims[0];
    const float max = max_value(type);
    const float* bad = std::find_if(values, values + n * n_cols, [&](float v) { return std::fabs(v) > max; });
    if (bad == values + n * n_cols) return {};
    const auto at = static_cast<std::size_t>(bad - values);
    return bad_weight(file_, tensor, begin + at / n_cols, at % n_cols, *bad,
                      (type.name + std::string(" cannot hold it")).c_str());
  }

  const GgufFile& file_;
  TensorType type_;
  Team team_;
  WeightRows rows_;
  GgufWriter writer_;
  Work work_;
  std::vector<std::byte> encoded_;
};

}  // namespace

Result<void> convert(const GgufFile& file, TensorType type, const std::string& out, const Quantization& how,
                     const simd::Kernels& kernels, std::size_t n_threads) {
  RUNNEL_ASSIGN(GgufWriter writer, GgufWriter::create(out, {file.name()}));
  return Converter(file, type, std::move(writer), how, kernels, n_threads).convert();
}

}  // namespace runnel
