#include "lib/io/packed_file.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lib/text/printable.h"
#include "quant/tensor_type.h"

namespace runnel {
namespace {

using quant::ShapeI8;
using quant::TensorType;
using quant::VariantI8;

constexpr std::string_view scales_suffix = "_scales";

struct Dims {
  std::array<std::uint64_t, 4> extent;  // 1 past the rank
  std::size_t rank;
};

Dims code_dims(const ShapeI8& shape, std::size_t n_matrix) {
  return {{shape.n_steps() * quant::i8_step_cols, shape.n_panels() * quant::i8_panel_rows,
           std::max<std::size_t>(n_matrix, 1), 1},
          n_matrix > 0 ? std::size_t{3} : 2};
}

Dims scale_dims(const ShapeI8& shape, std::size_t n_matrix) {
  return {{quant::i8_panel_rows, shape.n_groups(), shape.n_panels(), std::max<std::size_t>(n_matrix, 1)},
          n_matrix > 0 ? std::size_t{4} : 3};
}

Result<void> check_dims(const GgufFile& file, const GgufTensor& tensor, const Dims& dims) {
  if (tensor.dims != dims.extent)
    return error(RUNNEL_BAD_FILE, "%s: packed tensor %s has shape %s, expected %s", file.name().c_str(),
                 printable(tensor.name).c_str(), shape_text(tensor).c_str(),
                 shape_text(std::span(dims.extent).first(dims.rank)).c_str());
  return {};
}

// An infinite or undefined scale would make every product with its row undefined.
Result<void> check_scales(const GgufFile& file, const GgufTensor& tensor, VariantI8 variant) {
  const auto* scales = reinterpret_cast<const std::uint16_t*>(tensor.data);
  const std::uint16_t exponent = variant == VariantI8::g32 ? 0x7c00 : 0x7f80;  // all ones: not finite
  const std::size_t n = tensor.n_bytes / sizeof(std::uint16_t);
  const auto* bad =
      std::find_if(scales, scales + n, [&](std::uint16_t s) { return (s & exponent) == exponent; });
  if (bad == scales + n) return {};
  return error(RUNNEL_BAD_FILE, "%s: scale %td of packed tensor %s is not finite", file.name().c_str(),
               bad - scales, printable(tensor.name).c_str());
}

}  // namespace

std::string packed_scales_name(std::string_view name) { return std::string(name).append(scales_suffix); }

Result<bool> is_packed(const GgufFile& file) {
  if (!file.find(packed_version_key)) return false;
  RUNNEL_ASSIGN(const std::int64_t version,
                file.get_int(packed_version_key, 0, std::numeric_limits<std::int64_t>::max()));
  if (version != packed_version)
    return error(RUNNEL_UNSUPPORTED, "%s: %s is %lld, expected %u", file.name().c_str(), packed_version_key,
                 static_cast<long long>(version), packed_version);
  return true;
}

Result<std::size_t> packed_n_vocab(const GgufFile& file) {
  RUNNEL_ASSIGN(const std::int64_t n,
                file.get_int(packed_n_vocab_key, 1, std::numeric_limits<std::int32_t>::max()));
  return static_cast<std::size_t>(n);
}

bool has_packed(const GgufFile& file, std::string_view name) {
  const GgufTensor* codes = file.find_tensor(name);
  return codes && codes->type->type == TensorType::i8 && file.find(packed_version_key);
}

bool is_packed_part(const GgufFile& file, std::string_view name) {
  if (has_packed(file, name)) return true;
  return name.ends_with(scales_suffix) &&
         has_packed(file, name.substr(0, name.size() - scales_suffix.size()));
}

Result<PackedStack> find_packed(const GgufFile& file, std::string_view name, std::size_t n_rows,
                                std::size_t n_cols, std::size_t n_matrix) {
  const GgufTensor* codes = file.find_tensor(name);
  const GgufTensor* scales = file.find_tensor(packed_scales_name(name));
  if (!codes || codes->type->type != TensorType::i8)
    return error(RUNNEL_BAD_FILE, "%s: tensor %s is %s, expected packed codes of type I8",
                 file.name().c_str(), printable(name).c_str(), codes ? codes->type->name : "missing");
  if (!scales || (scales->type->type != TensorType::bf16 && scales->type->type != TensorType::f16))
    return error(RUNNEL_BAD_FILE, "%s: tensor %s is %s, expected scales of type BF16 or F16",
                 file.name().c_str(), printable(packed_scales_name(name)).c_str(),
                 scales ? scales->type->name : "missing");
  if (n_rows > quant::i8_max_size || n_cols > quant::i8_max_size)
    return error(RUNNEL_UNSUPPORTED, "%s: tensor %s of %zu x %zu is larger than packed ones can be",
                 file.name().c_str(), printable(name).c_str(), n_rows, n_cols);
  const ShapeI8 shape{scales->type->type == TensorType::bf16 ? VariantI8::g128 : VariantI8::g32, n_rows,
                      n_cols};
  RUNNEL_TRY(check_dims(file, *codes, code_dims(shape, n_matrix)));
  RUNNEL_TRY(check_dims(file, *scales, scale_dims(shape, n_matrix)));
  RUNNEL_TRY(check_scales(file, *scales, shape.variant));
  return PackedStack{{shape, reinterpret_cast<const std::int8_t*>(codes->data),
                      reinterpret_cast<const std::uint16_t*>(scales->data)},
                     std::max<std::size_t>(n_matrix, 1)};
}

Result<void> add_packed_keys(GgufWriter& writer, std::size_t n_vocab) {
  RUNNEL_TRY(writer.add(gguf_alignment_key, packed_alignment));
  RUNNEL_TRY(writer.add(packed_version_key, packed_version));
  return writer.add(packed_n_vocab_key, static_cast<std::uint32_t>(n_vocab));
}

Result<void> add_packed(GgufWriter& writer, std::string_view name, const ShapeI8& shape,
                        std::size_t n_matrix) {
  const Dims codes = code_dims(shape, n_matrix), scales = scale_dims(shape, n_matrix);
  RUNNEL_TRY(
      writer.add_tensor(name, quant::type_info(TensorType::i8), std::span(codes.extent).first(codes.rank)));
  const TensorType type = shape.variant == VariantI8::g128 ? TensorType::bf16 : TensorType::f16;
  return writer.add_tensor(packed_scales_name(name), quant::type_info(type),
                           std::span(scales.extent).first(scales.rank));
}

}  // namespace runnel
