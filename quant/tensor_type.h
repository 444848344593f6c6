// The number formats a tensor can have, one row each in tensor_type.cpp; ids are those of the GGUF
// specification. Of those that runnel does not read, the sizes are known. To read one: quant/<format>.{h,cpp}
// with its block layout and scalar codec, an id here and both in its row there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace runnel::quant {

// Those that are read.
enum class TensorType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, i8 = 24, i32 = 26, bf16 = 30 };

struct TypeInfo {
  TensorType type;
  const char* name;        // as GGUF tools print it: "F32", "Q8_0"
  std::size_t block_size;  // elements a block; a row holds whole blocks
  std::size_t block_bytes;
  // Scalar reference codec of n elements, n a multiple of block_size; null where a type by itself holds no
  // weights (i32, and i8, whose scales are another tensor) and where runnel cannot read them.
  void (*decode)(float* out, const void* in, std::size_t n) noexcept = nullptr;
  void (*encode)(void* out, const float* in, std::size_t n) noexcept = nullptr;

  bool holds_weights() const noexcept { return decode != nullptr; }
  bool is_read() const noexcept {
    return holds_weights() || type == TensorType::i8 || type == TensorType::i32;
  }
};

// Null for an id that GGUF does not define, or has withdrawn before files with it were about.
const TypeInfo* type_info(std::uint32_t id) noexcept;
inline const TypeInfo& type_info(TensorType type) noexcept {
  return *type_info(static_cast<std::uint32_t>(type));
}

// n must be a multiple of block_size.
inline std::size_t row_bytes(const TypeInfo& info, std::size_t n) noexcept {
  return n / info.block_size * info.block_bytes;
}

}  // namespace runnel::quant
