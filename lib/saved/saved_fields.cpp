#include "lib/saved/saved_fields.h"

namespace runnel {
namespace {

std::string range_text(std::int64_t min, std::int64_t max) {
  return min == max ? std::to_string(min) : "from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

void SavedFieldWriter::text(std::string_view value) {
  integer(static_cast<std::int64_t>(value.size()));
  bytes_ += value;
}

void SavedFieldWriter::integers(std::span<const std::int64_t> values) {
  integer(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) integer(value);
}

void SavedFieldWriter::tokens(std::span<const Token> values) {
  integer(static_cast<std::int64_t>(values.size()));
  for (const Token value : values) append(bytes_, value);
}

Error SavedFieldReader::bad(const char* name, const std::string& expected, const std::string& found) const {
  return {RUNNEL_BAD_FILE, file_ + ": section " + section_ + ", offset " + std::to_string(offset_ + field_) +
                               ", " + name + ": expected " + expected + ", found " + found};
}

Result<const std::byte*> SavedFieldReader::take(const char* name, std::uint64_t n_bytes) {
  const std::uint64_t n_left = bytes_.size() - at_;
  if (n_bytes > n_left)
    return bad(name, std::to_string(n_bytes) + " bytes", std::to_string(n_left) + " to the section's end");
  const std::byte* start = bytes_.data() + at_;
  at_ += static_cast<std::size_t>(n_bytes);
  return start;
}

Result<std::int64_t> SavedFieldReader::integer(const char* name, std::int64_t min, std::int64_t max) {
  field_ = at_;
  RUNNEL_ASSIGN(const std::byte* bytes, take(name, sizeof(std::int64_t)));
  const auto value = load<std::int64_t>(bytes);
  if (value < min || value > max) return bad(name, range_text(min, max), std::to_string(value));
  return value;
}

Result<std::uint64_t> SavedFieldReader::word(const char* name) {
  field_ = at_;
  RUNNEL_ASSIGN(const std::byte* bytes, take(name, sizeof(std::uint64_t)));
  return load<std::uint64_t>(bytes);
}

// The length of a list, whose elements are then there.
Result<std::uint64_t> SavedFieldReader::count(const char* name, std::int64_t min, std::int64_t max,
                                              std::size_t element_bytes) {
  RUNNEL_ASSIGN(const std::int64_t n, integer(name, min, max));
  const std::uint64_t n_left = bytes_.size() - at_;
  if (static_cast<std::uint64_t>(n) > n_left / element_bytes)
    return bad(name, "as many as the section holds, " + std::to_string(n_left / element_bytes) + " at most",
               std::to_string(n));
  return static_cast<std::uint64_t>(n);
}

Result<std::string> SavedFieldReader::text(const char* name, std::uint64_t max_bytes) {
  RUNNEL_ASSIGN(const std::uint64_t n, count(name, 0, static_cast<std::int64_t>(max_bytes), 1));
  RUNNEL_ASSIGN(const std::byte* bytes, take(name, n));
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
}

Result<std::vector<std::int64_t>> SavedFieldReader::integers(const char* name, std::int64_t min_count,
                                                             std::int64_t max_count, std::int64_t min,
                                                             std::int64_t max) {
  RUNNEL_ASSIGN(const std::uint64_t n, count(name, min_count, max_count, sizeof(std::int64_t)));
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    RUNNEL_ASSIGN(const std::int64_t value, integer(name, min, max));
    values.push_back(value);
  }
  return values;
}

Result<std::vector<Token>> SavedFieldReader::tokens(const char* name, std::int64_t min_count,
                                                    std::int64_t max_count, std::size_t n_vocab) {
  RUNNEL_ASSIGN(const std::uint64_t n, count(name, min_count, max_count, sizeof(Token)));
  std::vector<Token> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    field_ = at_;
    RUNNEL_ASSIGN(const std::byte* bytes, take(name, sizeof(Token)));
    const auto value = load<Token>(bytes);
    if (value < 0 || static_cast<std::size_t>(value) >= n_vocab)
      return bad(name, "a token " + range_text(0, static_cast<std::int64_t>(n_vocab) - 1),
                 std::to_string(value));
    values.push_back(value);
  }
  return values;
}

Result<std::span<const std::byte>> SavedFieldReader::rest(const char* name, std::uint64_t n_bytes) {
  field_ = at_;
  if (n_bytes != bytes_.size() - at_)
    return bad(name, std::to_string(n_bytes) + " bytes", std::to_string(bytes_.size() - at_));
  at_ = bytes_.size();
  return bytes_.subspan(field_);
}

Result<void> SavedFieldReader::end() const {
  if (at_ == bytes_.size()) return {};
  const unsigned long long offset = offset_ + at_;
  return error(RUNNEL_BAD_FILE,
               "%s: section %s, offset %llu: expected the section's end, found %zu bytes more", file_.c_str(),
               section_, offset, bytes_.size() - at_);
}

}  // namespace runnel
