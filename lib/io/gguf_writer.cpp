#include "lib/io/gguf_writer.h"

#include <bit>
#include <utility>

#include "lib/io/little_endian.h"
#include "lib/text/printable.h"

namespace runnel {

namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

void append_type(std::string& out, GgufType type) { append(out, static_cast<std::uint32_t>(type)); }

// Elements of an array of strings, or of one string, in the file's encoding; `encoded` holds the bytes.
GgufValue strings_value(const std::string& encoded, bool is_array, std::uint64_t count) {
  return {GgufType::string, is_array, count, as_bytes(encoded).data(), encoded.size(), 0};
}

template <class T>
GgufValue numbers_value(GgufType type, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {type, true, values.size(), bytes.data(), bytes.size(), 0};
}

}  // namespace

Result<GgufWriter> GgufWriter::create(const std::string& path, const std::vector<std::string>& inputs) {
  RUNNEL_ASSIGN(AtomicFile file, AtomicFile::create(path, inputs));
  return GgufWriter(std::make_unique<AtomicFile>(std::move(file)));
}

Result<void> GgufWriter::add(std::string_view key, std::string_view value) {
  std::string encoded;
  append_text(encoded, value);
  return add(key, strings_value(encoded, false, 1));
}

Result<void> GgufWriter::add(std::string_view key, std::span<const std::string_view> values) {
  std::string encoded;
  for (const std::string_view value : values) append_text(encoded, value);
  return add(key, strings_value(encoded, true, values.size()));
}

Result<void> GgufWriter::add(std::string_view key, std::span<const float> values) {
  return add(key, numbers_value(GgufType::f32, values));
}

Result<void> GgufWriter::add(std::string_view key, std::span<const std::int32_t> values) {
  return add(key, numbers_value(GgufType::i32, values));
}

Result<void> GgufWriter::add(std::string_view key, const GgufValue& value) {
  if (in_data_) return misuse("key", key, "metadata comes before the first data");
  if (key.empty() || key.size() > gguf_max_key)
    return misuse("key", key, "expected a key of 1 to 65535 bytes");
  if (keys_.size() == gguf_max_entries) return misuse("key", key, "too many metadata entries");
  if (!keys_.emplace(key).second) return misuse("key", key, "it is there already");
  if (key == gguf_alignment_key) RUNNEL_TRY(set_alignment(value));

  append_text(metadata_, key);
  append_type(metadata_, value.is_array ? GgufType::array : value.type);
  if (value.is_array) {
    append_type(metadata_, value.type);
    append(metadata_, value.count);
  }
  metadata_.append(reinterpret_cast<const char*>(value.data), value.n_bytes);
  return {};
}

Result<void> GgufWriter::set_alignment(const GgufValue& value) {
  const bool is_u32 = value.type == GgufType::u32 && !value.is_array;
  const std::uint32_t alignment = is_u32 ? load<std::uint32_t>(value.data) : 0;
  if (!std::has_single_bit(alignment) || alignment < gguf_min_alignment || alignment > gguf_max_alignment) {
    return misuse("key", gguf_alignment_key, "expected a u32 that is a power of two of 8 to 65536");
  }
  alignment_ = alignment;
  return {};
}

Result<void> GgufWriter::add_tensor(std::string_view name, const quant::TypeInfo& type,
                                    std::span<const std::uint64_t> dims) {
  if (in_data_) return misuse("tensor", name, "tensors are declared before the first data");
  if (name.empty() || name.size() > gguf_max_tensor_name) {
    return misuse("tensor", name, "expected a name of 1 to 64 bytes");
  }
  if (dims.empty() || dims.size() > 4) return misuse("tensor", name, "expected 1 to 4 dimensions");
  if (tensors_.size() == gguf_max_entries) return misuse("tensor", name, "too many tensors");
  if (!tensor_names_.emplace(name).second) return misuse("tensor", name, "it is there already");
  if (dims[0] % type.block_size != 0) return misuse("tensor", name, "expected rows of whole blocks");

  Tensor tensor{std::string(name), {}, type.block_bytes};
  append_text(tensor.info, name);
  append(tensor.info, static_cast<std::uint32_t>(dims.size()));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::uint64_t units = d == 0 ? dims[d] / type.block_size : dims[d];
    if (units == 0) return misuse("tensor", name, "expected dimensions of 1 or more");
    if (__builtin_mul_overflow(tensor.n_bytes, units, &tensor.n_bytes) || tensor.n_bytes >> 62 != 0) {
      return misuse("tensor", name, "it would take over 2^62 bytes");
    }
    append(tensor.info, dims[d]);
  }
  append(tensor.info, static_cast<std::uint32_t>(type.type));
  tensors_.push_back(std::move(tensor));
  return {};
}

// Writes all that comes before the data.
Result<void> GgufWriter::begin_data() {
  if (in_data_) return {};
  in_data_ = true;
  constexpr std::uint32_t version = 3;
  std::string head = "GGUF";
  append(head, version);
  append(head, std::uint64_t{tensors_.size()});
  append(head, std::uint64_t{keys_.size()});
  head += metadata_;
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    head += tensor.info;
    append(head, offset);
    if (__builtin_add_overflow(offset, tensor.n_bytes + padding(tensor.n_bytes), &offset)) {
      return misuse("tensor", tensor.name, "the file would take over 2^64 bytes");
    }
  }
  std::uint64_t n_bytes = head.size() + (tensors_.empty() ? 0 : padding(head.size()));
  if (__builtin_add_overflow(n_bytes, offset, &n_bytes)) {
    return misuse("tensor", tensors_.back().name, "the file would take over 2^64 bytes");
  }
  RUNNEL_TRY(file_->begin(n_bytes));
  RUNNEL_TRY(file_->write(as_bytes(head)));
  if (tensors_.empty()) return {};
  n_left_ = tensors_[0].n_bytes;
  return pad();
}

Result<void> GgufWriter::pad() {
  const std::vector<std::byte> zeros(padding(file_->n_bytes()));
  return file_->write(zeros);
}

Result<void> GgufWriter::write(std::span<const std::byte> bytes) {
  RUNNEL_TRY(begin_data());
  if (bytes.empty()) return {};
  if (bytes.size() > n_left_) {
    const std::string* name = current_tensor();
    return misuse(
        "tensor", name != nullptr ? *name : std::string(),
        "expected " + std::to_string(n_left_) + " more bytes at most, found " + std::to_string(bytes.size()));
  }
  RUNNEL_TRY(file_->write(bytes));
  n_left_ -= bytes.size();
  if (n_left_ != 0) return {};
  ++current_;
  n_left_ = current_ < tensors_.size() ? tensors_[current_].n_bytes : 0;
  return pad();
}

const std::string* GgufWriter::current_tensor() const {
  return current_ < tensors_.size() ? &tensors_[current_].name : nullptr;
}

Result<void> GgufWriter::finish() {
  RUNNEL_TRY(begin_data());
  if (const std::string* name = current_tensor()) {
    return misuse("tensor", *name, "expected " + std::to_string(n_left_) + " more bytes, found the end");
  }
  return file_->commit();
}

Error GgufWriter::misuse(const char* kind, std::string_view name, const std::string& problem) const {
  return {RUNNEL_BAD_ARGUMENT, file_->path() + ": " + kind + " '" + printable(name) + "': " + problem};
}

}  // namespace runnel
