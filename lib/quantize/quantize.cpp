#include "lib/quantize/quantize.h"

#include <optional>

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
  RUNNEL_ASSIGN(const auto model, Model::open(in, Settings()));
  if (model->is_packed())
    return error(RUNNEL_UNSUPPORTED, "%s: already packed as int8; quantise the file it was made from",
                 model->file().name().c_str());
  if (plain) return convert(model->file(), *plain, out, how, kernels, thread_count(settings));
  RUNNEL_ASSIGN(GgufWriter writer, GgufWriter::create(out, {in}));
  return pack_model(*model, std::move(writer), how, kernels, thread_count(settings));
}

}  // namespace runnel
