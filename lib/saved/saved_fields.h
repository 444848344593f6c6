// The numbers and texts of a section of a session file, one after the other: integers as i64, texts and lists
// with their length in front.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/little_endian.h"
#include "lib/result.h"
#include "lib/token/vocab.h"

namespace runnel {

class SavedFieldWriter {
 public:
  void integer(std::int64_t value) { append(bytes_, value); }
  void word(std::uint64_t value) { append(bytes_, value); }
  void text(std::string_view value);
  void integers(std::span<const std::int64_t> values);
  void tokens(std::span<const Token> values);

  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

// Every value is checked before it is given out, and a list that is longer than the section is refused before
// memory is taken for it. Errors are RUNNEL_BAD_FILE and name file, section, offset, field, what was expected
// and what was found.
class SavedFieldReader {
 public:
  // offset: of `bytes` in the file.
  SavedFieldReader(std::string file, const char* section, std::uint64_t offset,
                   std::span<const std::byte> bytes)
      : file_(std::move(file)), section_(section), offset_(offset), bytes_(bytes) {}

  const std::string& file() const { return file_; }

  Result<std::int64_t> integer(const char* name, std::int64_t min, std::int64_t max);
  Result<std::uint64_t> word(const char* name);
  Result<std::string> text(const char* name, std::uint64_t max_bytes);
  // At least min_count and at most max_count of them, each from min to max.
  Result<std::vector<std::int64_t>> integers(const char* name, std::int64_t min_count, std::int64_t max_count,
                                             std::int64_t min, std::int64_t max);
  Result<std::vector<Token>> tokens(const char* name, std::int64_t min_count, std::int64_t max_count,
                                    std::size_t n_vocab);
  // The next n_bytes, which have to be all that is left.
  Result<std::span<const std::byte>> rest(const char* name, std::uint64_t n_bytes);
  std::uint64_t n_left() const { return bytes_.size() - at_; }  // bytes
  Result<void> end() const;                                     // after the last field

  // The field that was read last makes no sense beside others.
  Error bad(const char* name, const std::string& expected, const std::string& found) const;

 private:
  Result<const std::byte*> take(const char* name, std::uint64_t n_bytes);
  Result<std::uint64_t> count(const char* name, std::int64_t min, std::int64_t max,
                              std::size_t element_bytes);

  std::string file_;
  const char* section_;
  std::uint64_t offset_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0, field_ = 0;  // of the next byte, and of the field read last
};

}  // namespace runnel
