// Writes GGUF v3 files front to back: metadata and tensors are declared, then the tensors' data follows in
// that order, in pieces of any size. The file appears under its name when it is complete
// (lib/io/atomic_file.h).
//
//   RUNNEL_ASSIGN(auto writer, GgufWriter::create("out.gguf", {"in.gguf"}));
//   RUNNEL_TRY(writer.add("general.architecture", "llama"));
//   RUNNEL_TRY(writer.add_tensor("output_norm.weight", type_info(TensorType::f32), dims));
//   RUNNEL_TRY(writer.write(bytes));
//   RUNNEL_TRY(writer.finish());
//
// Misuse (a name twice or too long, data that does not fit its tensor, calls out of order) is
// RUNNEL_BAD_ARGUMENT. After any error the writer is only good to be destroyed, which leaves nothing behind.
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/atomic_file.h"
#include "lib/io/gguf.h"
#include "lib/result.h"
#include "quant/tensor_type.h"

namespace runnel {

class GgufWriter {
 public:
  // `inputs`: files still being read, never to be overwritten.
  static Result<GgufWriter> create(const std::string& path, const std::vector<std::string>& inputs);

  // To anything else, memory for instance.
  explicit GgufWriter(std::unique_ptr<Output> output) : file_(std::move(output)) {}

  // Metadata, before the first data. "general.alignment" (u32, a power of two of 8 to 65536) also applies to
  // this file.
  Result<void> add(std::string_view key, std::uint8_t value) { return add_number(key, GgufType::u8, value); }
  Result<void> add(std::string_view key, std::int8_t value) { return add_number(key, GgufType::i8, value); }
  Result<void> add(std::string_view key, std::uint16_t value) {
    return add_number(key, GgufType::u16, value);
  }
  Result<void> add(std::string_view key, std::int16_t value) { return add_number(key, GgufType::i16, value); }
  Result<void> add(std::string_view key, std::uint32_t value) {
    return add_number(key, GgufType::u32, value);
  }
  Result<void> add(std::string_view key, std::int32_t value) { return add_number(key, GgufType::i32, value); }
  Result<void> add(std::string_view key, std::uint64_t value) {
    return add_number(key, GgufType::u64, value);
  }
  Result<void> add(std::string_view key, std::int64_t value) { return add_number(key, GgufType::i64, value); }
  Result<void> add(std::string_view key, float value) { return add_number(key, GgufType::f32, value); }
  Result<void> add(std::string_view key, double value) { return add_number(key, GgufType::f64, value); }
  Result<void> add(std::string_view key, bool value) { return add_number(key, GgufType::boolean, value); }
  Result<void> add(std::string_view key, std::string_view value);
  Result<void> add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Result<void> add(std::string_view key, std::span<const std::string_view> values);
  Result<void> add(std::string_view key, std::span<const float> values);
  Result<void> add(std::string_view key, std::span<const std::int32_t> values);
  // A value as a GgufFile has it: any type, any array.
  Result<void> add(std::string_view key, const GgufValue& value);

  // Declares a tensor of 1 to 4 dimensions, dims[0] the contiguous one and whole blocks of its type.
  Result<void> add_tensor(std::string_view name, const quant::TypeInfo& type,
                          std::span<const std::uint64_t> dims);

  // The next bytes of tensor data. A piece belongs to one tensor; the next tensor begins when one is
  // complete.
  Result<void> write(std::span<const std::byte> bytes);

  // Completes the file: all tensors must be complete.
  Result<void> finish();

 private:
  struct Tensor {
    std::string name;
    std::string info;  // encoded, up to the offset of its data
    std::uint64_t n_bytes;
  };

  template <class T>
  Result<void> add_number(std::string_view key, GgufType type, T value) {
    return add(key, GgufValue{type, false, 1, reinterpret_cast<const std::byte*>(&value), sizeof value, 0});
  }
  Result<void> set_alignment(const GgufValue& value);
  Result<void> begin_data();
  Result<void> pad();
  std::uint64_t padding(std::uint64_t n_bytes) const {
    return (alignment_ - n_bytes % alignment_) % alignment_;
  }
  const std::string* current_tensor() const;  // that write() goes on with; null when all are complete
  Error misuse(const char* kind, std::string_view name, const std::string& problem) const;

  std::unique_ptr<Output> file_;
  std::uint64_t alignment_ = gguf_default_alignment;
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> tensor_names_;
  std::string metadata_;  // encoded
  std::vector<Tensor> tensors_;
  bool in_data_ = false;
  std::size_t current_ = 0;   // of tensors_
  std::uint64_t n_left_ = 0;  // bytes of the current tensor
};

}  // namespace runnel
