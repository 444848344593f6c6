#include "lib/io/gguf.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

#include "lib/io/file_kind.h"
#include "lib/io/little_endian.h"
#include "lib/text/printable.h"

namespace runnel {

namespace {

constexpr std::uint64_t header_bytes = 4 + 4 + 8 + 8;        // magic, version, tensors, metadata entries
constexpr std::uint64_t min_metadata_bytes = 8 + 1 + 4 + 1;  // key, type, value
constexpr std::uint64_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, rank, one dimension, type, offset

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string readable_types() {
  constexpr std::uint32_t end_of_ids = 64;
  std::string list;
  for (std::uint32_t id = 0; id < end_of_ids; ++id) {
    if (const auto* info = quant::type_info(id); info && info->holds_weights())
      list += (list.empty() ? "" : ", ") + std::string(info->name);
  }
  return list;
}

auto key_of(const GgufFile& file) {
  return [&](std::uint32_t i) { return file.metadata()[i].first; };
}

auto name_of(const GgufFile& file) {
  return [&](std::uint32_t i) { return file.tensors()[i].name; };
}

}  // namespace

// Walks the file once from front to back.
class GgufParser {
 public:
  GgufParser(GgufFile& file, UnreadTypes unread) : file_(file), bytes_(file.bytes_), unread_(unread) {}

  Result<void> run() {
    RUNNEL_TRY(read_header());
    RUNNEL_TRY(read_metadata());
    RUNNEL_TRY(read_alignment());
    RUNNEL_TRY(read_tensors());
    RUNNEL_TRY(place_tensors());
    return check_overlaps();
  }

 private:
  // Where a tensor's data is, relative to the data section, and where the file says so.
  struct Place {
    std::uint64_t offset;
    std::uint64_t said_at;
  };

  std::uint64_t remaining() const { return bytes_.size() - pos_; }

  // What the parser is at, for messages: an entry, by name once that is read.
  void enter(const char* kind, std::uint64_t number, std::uint64_t count) {
    kind_ = kind, number_ = number, count_ = count, subject_ = {};
  }
  void enter(const char* kind, std::string_view name) { kind_ = kind, subject_ = name; }

  // Puts file, subject and offset before a message.
  Error at(std::uint64_t offset, Error problem) const {
    std::string place = file_.name_ + ": " + kind_;
    if (!subject_.empty()) {
      place.append(" '").append(printable(subject_)).append("'");
    } else if (count_ != 0) {
      place.append(" ").append(std::to_string(number_ + 1)).append(" of ").append(std::to_string(count_));
    }
    problem.message = place + " at offset " + std::to_string(offset) + ": " + problem.message;
    return problem;
  }

  Error ends_early(const char* what, std::uint64_t needed) const {
    return at(pos_, error(RUNNEL_BAD_FILE,
                          "expected %s of %" PRIu64 " bytes, found %" PRIu64 " bytes to the file's end", what,
                          needed, remaining()));
  }

  template <class T>
  Result<T> read(const char* what) {
    if (remaining() < sizeof(T)) return ends_early(what, sizeof(T));
    const T value = load<T>(bytes_.data() + pos_);
    pos_ += sizeof(T);
    return value;
  }

  Result<std::string_view> read_name(const char* what, std::uint64_t max_bytes) {
    const std::uint64_t start = pos_;
    RUNNEL_ASSIGN(const std::uint64_t size, read<std::uint64_t>(what));
    if (size == 0 || size > max_bytes) {
      return at(start, error(RUNNEL_BAD_FILE, "expected %s of 1 to %" PRIu64 " bytes, found %" PRIu64, what,
                             max_bytes, size));
    }
    if (size > remaining()) return ends_early(what, size);
    const std::string_view name = as_text(bytes_.subspan(pos_, size));
    pos_ += size;
    return name;
  }

  // A count of items that take min_bytes or more each.
  Result<void> check_count(std::uint64_t offset, const char* what, std::uint64_t count,
                           std::uint64_t min_bytes) const {
    const std::uint64_t fit = std::min(remaining() / min_bytes, gguf_max_entries);
    if (count <= fit) return {};
    return at(offset, error(RUNNEL_BAD_FILE,
                            "expected a number of %s up to %" PRIu64 " (all that %s), found %" PRIu64, what,
                            fit, fit == gguf_max_entries ? "runnel reads" : "the file has room for", count));
  }

  Result<void> read_header();
  Result<void> read_metadata();
  Result<void> read_value(GgufValue& value);
  Result<void> read_array(GgufValue& value);
  Result<void> read_strings(GgufValue& value);
  Result<void> check_booleans(const GgufValue& value) const;
  Result<void> read_alignment();
  Result<void> read_tensors();
  Result<void> read_dims(GgufTensor& tensor);
  Result<void> read_type(GgufTensor& tensor);
  Result<void> place_tensors();
  Result<void> check_overlaps();

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  UnreadTypes unread_;
  std::uint64_t pos_ = 0;  // <= bytes_.size()
  std::uint64_t n_metadata_ = 0;
  std::uint64_t n_tensors_ = 0;
  std::vector<Place> places_;  // [n_tensors_]

  const char* kind_ = "header";
  std::string_view subject_;
  std::uint64_t number_ = 0;
  std::uint64_t count_ = 0;
};

Result<void> GgufParser::read_header() {
  if (bytes_.empty()) return Error{RUNNEL_BAD_FILE, file_.name_ + ": the file is empty"};
  if (!as_text(bytes_).starts_with("GGUF")) {
    const std::string_view start = as_text(bytes_.first(std::min<std::size_t>(bytes_.size(), 4)));
    const std::string kind = guess_file_kind(bytes_);
    return at(0, error(RUNNEL_BAD_FILE, "not a GGUF file: expected it to start with 'GGUF', found '%s'%s",
                       printable(start).c_str(), kind.empty() ? "" : ("; it looks like " + kind).c_str()));
  }
  if (bytes_.size() < header_bytes) return ends_early("a header", header_bytes);
  pos_ = 4;
  RUNNEL_ASSIGN(const auto version, read<std::uint32_t>("a version"));
  if (version != 0 && (version & 0xffff) == 0) {
    return at(4, error(RUNNEL_UNSUPPORTED, "expected a little-endian file, found a big-endian one"));
  }
  if (version < 2 || version > 3) {
    return at(4, error(RUNNEL_UNSUPPORTED, "expected GGUF version 2 or 3, found %" PRIu32 "%s", version,
                       version == 1 ? ": convert the model again" : ""));
  }
  RUNNEL_ASSIGN(n_tensors_, read<std::uint64_t>("a number of tensors"));
  RUNNEL_ASSIGN(n_metadata_, read<std::uint64_t>("a number of metadata entries"));
  RUNNEL_TRY(check_count(8, "tensors", n_tensors_, min_tensor_bytes));
  return check_count(16, "metadata entries", n_metadata_, min_metadata_bytes);
}

Result<void> GgufParser::read_metadata() {
  file_.metadata_.reserve(n_metadata_);
  for (std::uint64_t i = 0; i < n_metadata_; ++i) {
    enter("metadata entry", i, n_metadata_);
    RUNNEL_ASSIGN(const std::string_view key, read_name("a key", gguf_max_key));
    enter("key", key);
    GgufValue value{};
    RUNNEL_TRY(read_value(value));
    file_.metadata_.emplace_back(key, value);
  }
  file_.metadata_index_.build(static_cast<std::uint32_t>(n_metadata_), key_of(file_));
  const auto duplicate = file_.metadata_index_.find_duplicate(key_of(file_));
  if (!duplicate) return {};
  const auto& [key, value] = file_.metadata_[duplicate->second];
  enter("key", key);
  return at(value.offset,
            error(RUNNEL_BAD_FILE, "expected every key once, found it again (first at offset %" PRIu64 ")",
                  file_.metadata_[duplicate->first].second.offset));
}

Result<void> GgufParser::read_value(GgufValue& value) {
  const std::uint64_t start = pos_;
  RUNNEL_ASSIGN(const auto id, read<std::uint32_t>("a value's type"));
  if (id > static_cast<std::uint32_t>(GgufType::f64)) {
    return at(start, error(RUNNEL_BAD_FILE, "expected a value type of 0 to 12, found %" PRIu32, id));
  }
  value.type = static_cast<GgufType>(id);
  value.count = 1;
  value.is_array = value.type == GgufType::array;
  if (value.is_array) RUNNEL_TRY(read_array(value));
  value.offset = pos_;
  value.data = bytes_.data() + pos_;
  if (value.type == GgufType::string) return read_strings(value);

  const std::size_t size = type_bytes(value.type);
  if (value.count > remaining() / size) {
    return at(pos_,
              error(RUNNEL_BAD_FILE,
                    "expected %" PRIu64 " values of type %s, found room for %" PRIu64 " to the file's end",
                    value.count, type_name(value.type), remaining() / size));
  }
  value.n_bytes = value.count * size;
  pos_ += value.n_bytes;
  return value.type == GgufType::boolean ? check_booleans(value) : Result<void>{};
}

// An array's head; its elements follow.
Result<void> GgufParser::read_array(GgufValue& value) {
  const std::uint64_t start = pos_;
  RUNNEL_ASSIGN(const auto id, read<std::uint32_t>("the type of an array's elements"));
  if (id > static_cast<std::uint32_t>(GgufType::f64)) {
    return at(start, error(RUNNEL_BAD_FILE, "expected elements of type 0 to 12, found %" PRIu32, id));
  }
  value.type = static_cast<GgufType>(id);
  if (value.type == GgufType::array) {
    return at(start,
              error(RUNNEL_UNSUPPORTED, "expected an array of plain values, found an array of arrays"));
  }
  RUNNEL_ASSIGN(value.count, read<std::uint64_t>("the length of an array"));
  return {};
}

Result<void> GgufParser::read_strings(GgufValue& value) {
  constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);
  if (value.count > remaining() / length_bytes) {
    return at(pos_,
              error(RUNNEL_BAD_FILE,
                    "expected %" PRIu64 " strings, found room for %" PRIu64 " at most to the file's end",
                    value.count, remaining() / length_bytes));
  }
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const std::uint64_t size = remaining() < length_bytes ? 0 : load<std::uint64_t>(bytes_.data() + pos_);
    if (remaining() < length_bytes || size > remaining() - length_bytes) {
      return at(pos_, error(RUNNEL_BAD_FILE,
                            "string %" PRIu64 " of %" PRIu64 ": expected %" PRIu64
                            " bytes and their number before them, found %" PRIu64 " bytes to the file's end",
                            i + 1, value.count, size, remaining()));
    }
    pos_ += length_bytes + size;
  }
  value.n_bytes = pos_ - value.offset;
  return {};
}

Result<void> GgufParser::check_booleans(const GgufValue& value) const {
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto byte = static_cast<unsigned>(value.data[i]);
    if (byte > 1)
      return at(value.offset + i, error(RUNNEL_BAD_FILE, "expected a boolean, 0 or 1, found %u", byte));
  }
  return {};
}

Result<void> GgufParser::read_alignment() {
  const char* const key = gguf_alignment_key;
  RUNNEL_ASSIGN(const std::int64_t alignment,
                file_.get_int(key, gguf_min_alignment, gguf_max_alignment, gguf_default_alignment));
  file_.alignment_ = static_cast<std::uint64_t>(alignment);
  if (std::has_single_bit(file_.alignment_)) return {};
  enter("key", key);
  return at(file_.find(key)->offset,
            error(RUNNEL_BAD_FILE, "expected a power of two, found %" PRIu64, file_.alignment_));
}

Result<void> GgufParser::read_tensors() {
  enter("header", 0, 0);
  RUNNEL_TRY(check_count(8, "tensors", n_tensors_, min_tensor_bytes));
  file_.tensors_.reserve(n_tensors_);
  places_.reserve(n_tensors_);
  for (std::uint64_t i = 0; i < n_tensors_; ++i) {
    enter("tensor", i, n_tensors_);
    GgufTensor tensor{};
    RUNNEL_ASSIGN(tensor.name, read_name("a tensor's name", gguf_max_tensor_name));
    enter("tensor", tensor.name);
    RUNNEL_TRY(read_dims(tensor));
    RUNNEL_TRY(read_type(tensor));
    const std::uint64_t said_at = pos_;
    RUNNEL_ASSIGN(const auto offset, read<std::uint64_t>("the offset of its data"));
    places_.push_back({offset, said_at});
    file_.tensors_.push_back(tensor);
  }
  file_.tensor_index_.build(static_cast<std::uint32_t>(n_tensors_), name_of(file_));
  const auto duplicate = file_.tensor_index_.find_duplicate(name_of(file_));
  if (!duplicate) return {};
  enter("tensor", file_.tensors_[duplicate->second].name);
  return at(places_[duplicate->second].said_at,
            error(RUNNEL_BAD_FILE, "expected every name once, found it as tensors %" PRIu32 " and %" PRIu32,
                  duplicate->first + 1, duplicate->second + 1));
}

Result<void> GgufParser::read_dims(GgufTensor& tensor) {
  const std::uint64_t start = pos_;
  RUNNEL_ASSIGN(tensor.rank, read<std::uint32_t>("its number of dimensions"));
  if (tensor.rank < 1 || tensor.rank > tensor.dims.size()) {
    return at(start, error(RUNNEL_BAD_FILE, "expected 1 to 4 dimensions, found %" PRIu32, tensor.rank));
  }
  tensor.dims.fill(1);
  for (std::uint32_t d = 0; d < tensor.rank; ++d) {
    RUNNEL_ASSIGN(tensor.dims[d], read<std::uint64_t>("a dimension"));
    if (tensor.dims[d] == 0)
      return at(pos_ - 8, error(RUNNEL_BAD_FILE, "dimension %" PRIu32 ": expected 1 or more, found 0", d));
  }
  return {};
}

// The type, and the bytes that the dimensions come to with it.
Result<void> GgufParser::read_type(GgufTensor& tensor) {
  const std::uint64_t start = pos_;
  RUNNEL_ASSIGN(const auto id, read<std::uint32_t>("its type"));
  tensor.type = quant::type_info(id);
  const bool is_known = tensor.type != nullptr;
  if (!is_known || (unread_ == UnreadTypes::refused && !tensor.type->is_read())) {
    return at(start, error(RUNNEL_UNSUPPORTED,
                           "expected weights of a type that runnel reads (%s), found %s (%" PRIu32
                           "): take this model's file in one of them",
                           readable_types().c_str(), is_known ? tensor.type->name : "an unknown one", id));
  }
  const std::uint64_t block = tensor.type->block_size;
  if (tensor.dims[0] % block != 0) {
    return at(start, error(RUNNEL_BAD_FILE,
                           "expected rows in whole %s blocks of %" PRIu64 " elements, found rows of %" PRIu64,
                           tensor.type->name, block, tensor.dims[0]));
  }
  std::uint64_t n_bytes = tensor.dims[0] / block;
  bool overflow = __builtin_mul_overflow(n_bytes, std::uint64_t{tensor.type->block_bytes}, &n_bytes);
  std::uint64_t n_elements = tensor.dims[0];
  for (std::uint32_t d = 1; d < tensor.rank; ++d) {
    overflow |= __builtin_mul_overflow(n_bytes, tensor.dims[d], &n_bytes);
    overflow |= __builtin_mul_overflow(n_elements, tensor.dims[d], &n_elements);
  }
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (overflow || n_bytes > most || n_elements > most) {
    return at(start,
              error(RUNNEL_BAD_FILE,
                    "expected dimensions that come to less than 2^63 elements and bytes, found [%" PRIu64
                    ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "] of %s",
                    tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3], tensor.type->name));
  }
  tensor.n_bytes = n_bytes;
  return {};
}

Result<void> GgufParser::place_tensors() {
  // pos_ is inside memory, so that rounding it up cannot overflow; the result may lie past the file's end.
  const std::uint64_t data_start = (pos_ + file_.alignment_ - 1) / file_.alignment_ * file_.alignment_;
  const std::uint64_t available = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
  for (std::size_t i = 0; i < n_tensors_; ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    const std::uint64_t offset = places_[i].offset;
    enter("tensor", tensor.name);
    if (offset % file_.alignment_ != 0) {
      return at(places_[i].said_at,
                error(RUNNEL_BAD_FILE, "expected data at a multiple of %" PRIu64 " bytes, found %" PRIu64,
                      file_.alignment_, offset));
    }
    if (offset > available || tensor.n_bytes > available - offset) {
      std::uint64_t end = 0;
      const bool overflow = __builtin_add_overflow(data_start, offset, &end) ||
                            __builtin_add_overflow(end, tensor.n_bytes, &end);
      return at(places_[i].said_at,
                error(RUNNEL_BAD_FILE,
                      "expected %" PRIu64
                      " bytes of data that end at %s, found a file of %zu bytes: it is cut short or damaged",
                      tensor.n_bytes, overflow ? "over 2^64" : std::to_string(end).c_str(), bytes_.size()));
    }
    tensor.data = bytes_.data() + data_start + offset;
  }
  return {};
}

// Tensors that share bytes are refused, the same range twice included: a converter writes tied weights by
// leaving a tensor out, llama.cpp's own reader takes only data laid end to end, and so sharing is damage or
// an attack.
Result<void> GgufParser::check_overlaps() {
  std::vector<std::uint32_t> order(file_.tensors_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(places_[a].offset, a) < std::pair(places_[b].offset, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = file_.tensors_[order[i - 1]];
    const std::uint64_t end = places_[order[i - 1]].offset + before.n_bytes;
    if (end <= places_[order[i]].offset) continue;
    enter("tensor", file_.tensors_[order[i]].name);
    return at(places_[order[i]].said_at,
              error(RUNNEL_BAD_FILE,
                    "expected data of its own, found data offset %" PRIu64
                    " inside tensor '%s', which ends at %" PRIu64,
                    places_[order[i]].offset, printable(before.name).c_str(), end));
  }
  return {};
}

Result<GgufFile> GgufFile::open(const std::string& path, UnreadTypes unread) {
  RUNNEL_ASSIGN(MappedFile mapped, MappedFile::open(path));
  RUNNEL_ASSIGN(GgufFile file, parse(mapped.bytes(), path, unread));
  file.file_ = std::move(mapped);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name, UnreadTypes unread) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % gguf_min_alignment != 0) {
    return Error{RUNNEL_BAD_ARGUMENT, name + ": expected memory aligned to 8 bytes at least"};
  }
  GgufFile file;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  RUNNEL_TRY(GgufParser(file, unread).run());
  return file;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto i = metadata_index_.find(key, key_of(*this));
  return i ? &metadata_[*i].second : nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto i = tensor_index_.find(name, name_of(*this));
  return i ? &tensors_[*i] : nullptr;
}

}  // namespace runnel
