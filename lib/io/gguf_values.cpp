// Typed access to metadata, and its text.
#include <cmath>
#include <limits>
#include <optional>

#include "lib/io/gguf.h"
#include "lib/io/little_endian.h"
#include "lib/text/number_text.h"
#include "lib/text/printable.h"

namespace runnel {

namespace {

struct TypeRow {
  const char* name;
  std::size_t n_bytes;
};

constexpr std::array<TypeRow, 13> types{{{"u8", 1},
                                         {"i8", 1},
                                         {"u16", 2},
                                         {"i16", 2},
                                         {"u32", 4},
                                         {"i32", 4},
                                         {"f32", 4},
                                         {"boolean", 1},
                                         {"string", 0},
                                         {"array", 0},
                                         {"u64", 8},
                                         {"i64", 8},
                                         {"f64", 8}}};

// The i-th element of an integer type; none for other types and numbers past 2^63.
std::optional<std::int64_t> integer_at(const GgufValue& value, std::uint64_t i) {
  switch (value.type) {
    case GgufType::u8:
      return load<std::uint8_t>(value.data + i);
    case GgufType::i8:
      return load<std::int8_t>(value.data + i);
    case GgufType::u16:
      return load<std::uint16_t>(value.data + 2 * i);
    case GgufType::i16:
      return load<std::int16_t>(value.data + 2 * i);
    case GgufType::u32:
      return load<std::uint32_t>(value.data + 4 * i);
    case GgufType::i32:
      return load<std::int32_t>(value.data + 4 * i);
    case GgufType::i64:
      return load<std::int64_t>(value.data + 8 * i);
    case GgufType::u64: {
      const auto number = load<std::uint64_t>(value.data + 8 * i);
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(number);
    }
    default:
      return std::nullopt;
  }
}

// The i-th element of a number type; none for other types.
std::optional<double> real_at(const GgufValue& value, std::uint64_t i) {
  if (value.type == GgufType::f32) return load<float>(value.data + 4 * i);
  if (value.type == GgufType::f64) return load<double>(value.data + 8 * i);
  if (value.type == GgufType::u64) return static_cast<double>(load<std::uint64_t>(value.data + 8 * i));
  if (const auto integer = integer_at(value, i)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::string_view string_at(const std::byte* data) {
  return {reinterpret_cast<const char*>(data) + sizeof(std::uint64_t), load<std::uint64_t>(data)};
}

// Calls visit(std::string_view) for the strings of a value until it returns false.
template <class Visit>
void for_strings(const GgufValue& value, Visit visit) {
  const std::byte* data = value.data;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const std::string_view text = string_at(data);
    if (!visit(text)) return;
    data += sizeof(std::uint64_t) + text.size();
  }
}

// The i-th element of any type but string.
std::string element_text(const GgufValue& value, std::uint64_t i) {
  switch (value.type) {
    case GgufType::boolean:
      return load<std::uint8_t>(value.data + i) != 0 ? "true" : "false";
    case GgufType::f32:
      return number_text(load<float>(value.data + 4 * i), 7);
    case GgufType::f64:
      return number_text(load<double>(value.data + 8 * i), 15);
    case GgufType::u64:
      return std::to_string(load<std::uint64_t>(value.data + 8 * i));
    default:
      return std::to_string(integer_at(value, i).value_or(0));
  }
}

std::string quoted(std::string_view text, std::size_t max_chars) {
  return std::string("'").append(printable(text, max_chars)).append("'");
}

std::string array_text(const GgufValue& value, std::size_t max_chars) {
  std::string text = "[";
  std::uint64_t shown = 0;
  const auto add = [&](const std::string& element) {
    const std::string piece = std::string(shown == 0 ? "" : ", ") + element;
    if (text.size() + piece.size() > max_chars) return false;
    text += piece;
    ++shown;
    return true;
  };
  if (value.type == GgufType::string) {
    for_strings(value, [&](std::string_view s) { return add(quoted(s, max_chars)); });
  } else {
    bool fits = true;
    while (fits && shown < value.count) fits = add(element_text(value, shown));
  }
  if (shown < value.count) text += (shown == 0 ? "..." : ", ...");
  text += "]";
  return shown < value.count ? text + " (" + std::to_string(value.count) + ")" : text;
}

std::string describe(const GgufValue& value) {
  const std::string type = type_name(value.type);
  if (value.is_array) return "an array of " + std::to_string(value.count) + " of type " + type;
  return type + " " +
         (value.type == GgufType::string ? quoted(string_at(value.data), 40) : to_text(value, 40));
}

}  // namespace

const char* type_name(GgufType type) noexcept { return types[static_cast<std::size_t>(type)].name; }
std::size_t type_bytes(GgufType type) noexcept { return types[static_cast<std::size_t>(type)].n_bytes; }

Result<const GgufValue*> GgufFile::require(std::string_view key) const {
  if (const GgufValue* value = find(key)) return value;
  return Error{RUNNEL_BAD_FILE,
               name_ + ": expected key '" + printable(key) + "', which the file does not have"};
}

Error GgufFile::unexpected(std::string_view key, const GgufValue& value, const std::string& expected) const {
  return {RUNNEL_BAD_FILE, name_ + ": key '" + printable(key) + "' at offset " +
                               std::to_string(value.offset) + ": expected " + expected + ", found " +
                               describe(value)};
}

Result<std::int64_t> GgufFile::get_int(std::string_view key, std::int64_t min, std::int64_t max) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  const auto number = value->is_array ? std::nullopt : integer_at(*value, 0);
  if (number && *number >= min && *number <= max) return *number;
  return unexpected(key, *value, "an integer of " + std::to_string(min) + " to " + std::to_string(max));
}

Result<double> GgufFile::get_real(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  const auto number = value->is_array ? std::nullopt : real_at(*value, 0);
  if (number && std::isfinite(*number)) return *number;
  return unexpected(key, *value, "a finite number");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  if (value->is_array || value->type != GgufType::boolean) return unexpected(key, *value, "a boolean");
  return load<std::uint8_t>(value->data) != 0;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  if (value->is_array || value->type != GgufType::string) return unexpected(key, *value, "a string");
  return string_at(value->data);
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  if (!value->is_array || value->type != GgufType::string)
    return unexpected(key, *value, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  for_strings(*value, [&](std::string_view text) {
    strings.push_back(text);
    return true;
  });
  return strings;
}

Result<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  if (!value->is_array) return unexpected(key, *value, "an array of numbers");
  if (value->type == GgufType::string || value->type == GgufType::boolean) {
    return unexpected(key, *value, "an array of numbers");
  }
  std::vector<float> floats(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const double number = real_at(*value, i).value_or(0);
    const bool fits = std::isinf(number) || std::fabs(number) <= std::numeric_limits<float>::max();
    if (!fits) {  // NaN included
      return unexpected(
          key, *value,
          "32-bit numbers in element " + std::to_string(i) + " (" + element_text(*value, i) + ")");
    }
    floats[i] = static_cast<float>(number);
  }
  return floats;
}

Result<std::vector<std::int64_t>> GgufFile::get_ints(std::string_view key) const {
  RUNNEL_ASSIGN(const GgufValue* value, require(key));
  const char* expected = "an array of integers below 2^63";
  if (!value->is_array || value->type == GgufType::string) return unexpected(key, *value, expected);
  GgufValue integers = *value;
  if (integers.type == GgufType::boolean) integers.type = GgufType::u8;
  std::vector<std::int64_t> numbers;
  numbers.reserve(integers.count);
  for (std::uint64_t i = 0; i < integers.count; ++i) {
    const auto number = integer_at(integers, i);
    if (!number) return unexpected(key, *value, expected);
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::int64_t> GgufFile::get_int(std::string_view key, std::int64_t min, std::int64_t max,
                                       std::int64_t absent) const {
  return find(key) != nullptr ? get_int(key, min, max) : absent;
}

Result<double> GgufFile::get_real(std::string_view key, double absent) const {
  return find(key) != nullptr ? get_real(key) : absent;
}

Result<bool> GgufFile::get_bool(std::string_view key, bool absent) const {
  return find(key) != nullptr ? get_bool(key) : absent;
}

Result<std::string_view> GgufFile::get_string(std::string_view key, std::string_view absent) const {
  return find(key) != nullptr ? get_string(key) : absent;
}

std::string shape_text(std::span<const std::uint64_t> dims) {
  std::string text = "[";
  for (const std::uint64_t d : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

std::string shape_text(const GgufTensor& tensor) {
  return shape_text(std::span(tensor.dims).first(tensor.rank));
}

std::string to_text(const GgufValue& value, std::size_t max_chars) {
  if (value.is_array) return array_text(value, max_chars);
  return value.type == GgufType::string ? printable(string_at(value.data), max_chars)
                                        : element_text(value, 0);
}

}  // namespace runnel
