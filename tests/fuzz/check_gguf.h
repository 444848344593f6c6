// Reads everything a GGUF file offers and says what is wrong with it; used by the mutation tests and the
// fuzzer.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "lib/io/gguf.h"

namespace runnel::test {

inline bool lies_inside(std::span<const std::byte> file, const std::byte* data, std::uint64_t n_bytes) {
  return data >= file.data() && data <= file.data() + file.size() &&
         n_bytes <= static_cast<std::uint64_t>(file.data() + file.size() - data);
}

// Every accessor on every key: they may fail, but only with a message that names the file.
inline std::string check_access(const GgufFile& file, std::string_view key) {
  constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  int n_served = 0;
  std::string problem;
  const auto note = [&](const auto& result) {
    if (result) {
      ++n_served;
    } else if (!result.error().message.starts_with(file.name() + ": ")) {
      problem = "a message without the file's name: " + result.error().message;
    }
  };
  note(file.get_int(key, min, max));
  note(file.get_real(key));
  note(file.get_bool(key));
  note(file.get_string(key));
  note(file.get_strings(key));
  note(file.get_floats(key));
  note(file.get_ints(key));
  if (n_served > 2) problem = "a value of three kinds";
  return problem;
}

// "" when the bytes are refused with a message that names the file, or all they hold lies inside them.
inline std::string check_gguf(std::span<const std::byte> bytes, UnreadTypes unread) {
  const std::string name = "damaged.gguf";
  const auto file = GgufFile::parse(bytes, name, unread);
  if (!file) {
    const Error& refusal = file.error();
    const bool known = refusal.status == RUNNEL_BAD_FILE || refusal.status == RUNNEL_UNSUPPORTED;
    const bool named = refusal.message.starts_with(name + ": ");
    return known && named ? "" : "status " + std::to_string(refusal.status) + ": " + refusal.message;
  }
  for (const auto& [key, value] : file->metadata()) {
    if (file->find(key) != &value) return "a key that is not found";
    if (!lies_inside(bytes, value.data, value.n_bytes)) return "a value outside the file";
    if (to_text(value, 60).size() > 100) return "a text that is too long";
    if (std::string problem = check_access(*file, key); !problem.empty()) return problem;
  }
  for (const GgufTensor& tensor : file->tensors()) {
    if (file->find_tensor(tensor.name) != &tensor) return "a tensor that is not found";
    if (tensor.n_bytes == 0 || !lies_inside(bytes, tensor.data, tensor.n_bytes))
      return "a tensor outside the file";
    const auto n_rows = tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    if (tensor.n_bytes != n_rows * quant::row_bytes(*tensor.type, tensor.dims[0]))
      return "a tensor of another size";
    if (unread == UnreadTypes::refused && !tensor.type->is_read()) return "a tensor that nobody can read";
  }
  return "";
}
inline std::string check_gguf(std::span<const std::byte> bytes) {
  const std::string problem = check_gguf(bytes, UnreadTypes::refused);
  return problem.empty() ? check_gguf(bytes, UnreadTypes::taken) : problem;
}

}  // namespace runnel::test
