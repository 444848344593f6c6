// The bundled model with a window of its own in every layer, as Mistral has it: where more than a batch is
// taken back, what is seen is read again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "lib/io/gguf.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {

// The bytes of its file: two keys are put in front of the others, the second so long that tensors stay
// aligned.
inline std::string demo_with_native_window(std::uint32_t n_tokens) {
  constexpr std::size_t n_keys_at = 16, keys_at = 24, alignment = 32;
  std::string keys;
  const auto add = [](std::string& to, auto number) {
    to.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const auto add_text = [&](const std::string& text) {
    add(keys, std::uint64_t{text.size()});
    keys += text;
  };
  add_text("llama.attention.sliding_window");
  add(keys, GgufType::u32);
  add(keys, n_tokens);
  add_text("general.comment");
  add(keys, GgufType::string);
  add_text(std::string(alignment - (keys.size() + sizeof(std::uint64_t)) % alignment, '-'));

  std::string file = read_bytes(demo_model());
  std::uint64_t n_keys;
  std::memcpy(&n_keys, file.data() + n_keys_at, sizeof n_keys);
  n_keys += 2;
  std::memcpy(file.data() + n_keys_at, &n_keys, sizeof n_keys);
  return file.insert(keys_at, keys);
}

}  // namespace runnel::test
