// Builds GGUF files in memory for tests: an encoder of its own, which shares nothing with the reader and
// writer under test, and which writes wrong files as readily as right ones.
//
//   const auto bytes = GgufBuilder()
//                          .add("general.architecture", "llama")
//                          .add("llama.block_count", std::uint32_t{2})
//                          .add_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
//                          .tensor("token_embd.weight", {64, 2}, std::vector<float>(128))
//                          .build();
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace runnel::test {

// Ids of the GGUF specification.
template <class T>
constexpr std::uint32_t gguf_type_id() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
  if constexpr (std::is_same_v<T, std::int8_t>) return 1;
  if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
  if constexpr (std::is_same_v<T, std::int16_t>) return 3;
  if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
  if constexpr (std::is_same_v<T, std::int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_convertible_v<T, std::string_view>) return 8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
  if constexpr (std::is_same_v<T, std::int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}

template <class T>
void put(std::string& out, const T& value) {
  if constexpr (std::is_convertible_v<T, std::string_view>) {
    const std::string_view text = value;
    put(out, std::uint64_t{text.size()});
    out += text;
  } else {
    static_assert(std::is_arithmetic_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
}

class GgufBuilder {
 public:
  GgufBuilder& version(std::uint32_t number) {
    version_ = number;
    return *this;
  }

  // Where data is put; also written as general.alignment.
  GgufBuilder& alignment(std::uint32_t n_bytes) {
    alignment_ = n_bytes;
    return add("general.alignment", n_bytes);
  }

  // A scalar of exactly the type T (std::uint32_t{7}, 1.5F, true...), or a string.
  template <class T>
  GgufBuilder& add(std::string_view key, const T& value) {
    std::string encoded;
    put(encoded, value);
    return add_raw(key, gguf_type_id<std::decay_t<T>>(), encoded);
  }

  template <class T>
  GgufBuilder& add_array(std::string_view key, const std::vector<T>& values) {
    std::string encoded;
    put(encoded, gguf_type_id<T>());
    put(encoded, std::uint64_t{values.size()});
    for (const T& value : values) put(encoded, value);
    return add_raw(key, 9, encoded);
  }

  // A value in the file's encoding, right or wrong.
  GgufBuilder& add_raw(std::string_view key, std::uint32_t type_id, std::string_view value) {
    put(metadata_, key);
    put(metadata_, type_id);
    metadata_ += value;
    ++n_metadata_;
    return *this;
  }

  // An F32 tensor; dims[0] is the contiguous one.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                      const std::vector<float>& values) {
    return tensor(name, 0, dims,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  // A tensor of any type id from its bytes; `offset` in the data section where it is to differ from the right
  // one.
  GgufBuilder& tensor(std::string_view name, std::uint32_t type_id, const std::vector<std::uint64_t>& dims,
                      std::string_view bytes, std::optional<std::uint64_t> offset = std::nullopt) {
    pad(data_, alignment_);
    put(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) put(tensors_, dim);
    put(tensors_, type_id);
    put(tensors_, offset.value_or(data_.size()));
    data_ += bytes;
    ++n_tensors_;
    return *this;
  }

  // Counts in the header other than the true ones.
  GgufBuilder& claim_tensors(std::uint64_t count) {
    n_tensors_ = count;
    return *this;
  }
  GgufBuilder& claim_metadata(std::uint64_t count) {
    n_metadata_ = count;
    return *this;
  }

  std::vector<std::byte> build() const {
    std::string file = "GGUF";
    put(file, version_);
    put(file, n_tensors_);
    put(file, n_metadata_);
    file += metadata_ + tensors_;
    if (!data_.empty()) pad(file, alignment_);
    file += data_;
    std::vector<std::byte> bytes(file.size());
    std::memcpy(bytes.data(), file.data(), file.size());
    return bytes;
  }

 private:
  static void pad(std::string& out, std::uint64_t alignment) {
    out.append((alignment - out.size() % alignment) % alignment, '\0');
  }

  std::uint32_t version_ = 3;
  std::uint64_t alignment_ = 32;
  std::uint64_t n_metadata_ = 0;
  std::uint64_t n_tensors_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace runnel::test
