#include "lib/quantize/quantize.h"

#include <optional>

#include "lib/io/packed_file.h"
#include "lib/model.h"
#include "lib/quantize/convert.h"
#include "lib/quantize/pack_model.h"
#include "lib/system/machine.h"
#include "lib/text/printable.h"

namespace runnel {
namespace {

using quant::TensorType;

std::optional<TensorType> plain_type(std::string_view name) {
  if (name == "f32") return TensorType::f32;
  if (name == "f16") return TensorType::f16;
  if (name == "q8_0") return TensorType::q8_0;
  return std::nullopt;
}

// What can be told without reading a weight.
Result<void> check_input(const GgufFile& file) {
  RUNNEL_ASSIGN(const bool packed, is_packed(file));
  if (packed)
    return error(RUNNEL_UNSUPPORTED, "%s: already packed as int8; quantise the file it was made from",
                 file.name().c_str());
  if (file.tensors().empty())
    return error(RUNNEL_BAD_FILE, "%s: the file holds no weights", file.name().c_str());
  return {};
}

}  // namespace

Result<void> quantize(const std::string& in, const std::string& out, const Quantization& how,
                      const Settings& settings) {
  const std::optional<TensorType> plain = plain_type(how.type);
  if (!plain && how.type != "i8")
    return error(RUNNEL_BAD_ARGUMENT, "type is \"%s\", expected i8, q8_0, f16 or f32",
                 printable(how.type, 40).c_str());
  if (plain && !how.calibration.empty())
    return error(RUNNEL_BAD_ARGUMENT, "a calibration text serves type i8 only, not %s", how.type.c_str());
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  RUNNEL_ASSIGN(GgufFile file, GgufFile::open(in));
  RUNNEL_TRY(check_input(file));
  if (plain) return convert(file, *plain, out, how, kernels, thread_count(settings));
  RUNNEL_ASSIGN(const auto model, Model::open(in, Settings()));
  RUNNEL_ASSIGN(GgufWriter writer, GgufWriter::create(out, {in}));
  return pack_model(*model, std::move(writer), how, kernels, thread_count(settings));
}

}  // namespace runnel
