#include "lib/quantize/copy_tensor.h"

#include <algorithm>

namespace runnel {
namespace {

constexpr std::size_t max_piece = std::size_t{4} << 20;  // bytes

}  // namespace

Result<void> copy_tensor(const GgufFile& file, const GgufTensor& tensor, GgufWriter& writer, Work& work) {
  const quant::TypeInfo& type = *tensor.type;
  const std::size_t piece = max_piece / type.block_bytes * type.block_bytes;  // whole blocks
  for (std::size_t begin = 0; begin < tensor.n_bytes; begin += piece) {
    const std::span bytes(tensor.data + begin, std::min(piece, tensor.n_bytes - begin));
    RUNNEL_TRY(writer.write(bytes));
    file.drop_pages(bytes);
    RUNNEL_TRY(work.advance(static_cast<double>(bytes.size() / type.block_bytes * type.block_size)));
  }
  return {};
}

}  // namespace runnel
