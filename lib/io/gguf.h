// GGUF v2/v3, the container of llama.cpp's models (specification: ggml/docs/gguf.md): metadata and tensors,
// read in place from mapped memory. Every number is checked before it is used; nothing is copied but small
// indices, never more than the file's own size plus 64 MB.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/io/mapped_file.h"
#include "lib/io/name_index.h"
#include "lib/result.h"
#include "quant/tensor_type.h"

namespace runnel {

// Ids of the specification.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

// "u32", "string"...
const char* type_name(GgufType type) noexcept;
// Bytes of one value; 0 for strings and arrays, whose size varies.
std::size_t type_bytes(GgufType type) noexcept;

// Limits of the specification, in bytes; and the alignment where the file does not give one.
constexpr std::uint64_t gguf_max_key = 65535;
constexpr std::uint64_t gguf_max_tensor_name = 64;
constexpr const char* gguf_alignment_key = "general.alignment";
constexpr std::uint64_t gguf_default_alignment = 32;
// general.alignment is a power of two in this range. (The specification asks for a multiple of 8, its
// authors' reader for a power of two; pages are the largest unit anybody aligns to.)
constexpr std::int64_t gguf_min_alignment = 8;
constexpr std::int64_t gguf_max_alignment = 65536;
// Most metadata entries, and most tensors, a file may have: five times what the largest models have, and few
// enough for their indices to stay small.
constexpr std::uint64_t gguf_max_entries = std::uint64_t{1} << 18;

struct GgufValue {
  GgufType type;  // of the value, or of an array's elements; never array
  bool is_array;
  std::uint64_t count;    // elements; 1 for a scalar
  const std::byte* data;  // little endian, packed, not aligned; each string as u64 length and bytes
  std::uint64_t n_bytes;  // of data
  std::uint64_t offset;   // of data in the file, for messages
};

struct GgufTensor {
  std::string_view name;
  const quant::TypeInfo* type;
  std::array<std::uint64_t, 4> dims;  // all >= 1; dims[0] is contiguous and whole blocks; 1 past the rank
  std::uint32_t rank;                 // 1..4
  const std::byte* data;  // [n_bytes], aligned to 8 bytes at least, to the file's alignment mostly
  std::uint64_t n_bytes;

  std::uint64_t n_elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }  // the reader checked it
};

// What becomes of a file whose tensors have types that runnel cannot read.
enum class UnreadTypes { refused, taken };

// Pointers and views into a file's bytes live as long as the GgufFile (or, after parse(), those bytes).
class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path, UnreadTypes unread = UnreadTypes::refused);
  // `name` stands for the file in messages. The bytes are borrowed, aligned to 8 bytes at least, and must not
  // change.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name,
                                UnreadTypes unread = UnreadTypes::refused);

  const std::string& name() const { return name_; }
  std::uint64_t n_bytes() const { return bytes_.size(); }
  std::uint64_t alignment() const { return alignment_; }  // of tensor data in the file, bytes

  const GgufValue* find(std::string_view key) const;           // null when absent
  const GgufTensor* find_tensor(std::string_view name) const;  // null when absent
  // In the file's order; names are unique.
  const std::vector<std::pair<std::string_view, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Gives back the memory of a tensor's data that is not needed soon, where it can be read again from the
  // mapped file. Bytes that were borrowed stay: memory that no file is behind would lose them.
  void drop_pages(std::span<const std::byte> data) const noexcept { file_.drop_pages(data); }

  // Typed access; absence is an error that names file and key, a value of another type or out of range
  // likewise. Any integer type serves for an integer, f32 and f64 (and integers) for a real number. Reals are
  // finite; the floats of an array may be infinite but not NaN.
  Result<std::int64_t> get_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  Result<double> get_real(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<float>> get_floats(std::string_view key) const;
  Result<std::vector<std::int64_t>> get_ints(std::string_view key) const;  // integers or booleans

  // The same with a value for an absent key; a present one of the wrong type is still an error.
  Result<std::int64_t> get_int(std::string_view key, std::int64_t min, std::int64_t max,
                               std::int64_t absent) const;
  Result<double> get_real(std::string_view key, double absent) const;
  Result<bool> get_bool(std::string_view key, bool absent) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view absent) const;

 private:
  friend class GgufParser;
  Result<const GgufValue*> require(std::string_view key) const;
  Error unexpected(std::string_view key, const GgufValue& value, const std::string& expected) const;

  std::string name_;
  MappedFile file_;  // owns the bytes of open(); empty after parse()
  std::span<const std::byte> bytes_;
  std::uint64_t alignment_ = gguf_default_alignment;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  NameIndex metadata_index_;
  NameIndex tensor_index_;
};

// One line of text for people; arrays and long strings are shortened to about max_chars.
std::string to_text(const GgufValue& value, std::size_t max_chars);

// "[2048, 32000]", in GGUF's order.
std::string shape_text(std::span<const std::uint64_t> dims);
std::string shape_text(const GgufTensor& tensor);

}  // namespace runnel
