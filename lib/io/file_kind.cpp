#include "lib/io/file_kind.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace runnel {

namespace {

struct Kind {
  std::string_view start;
  const char* text;
};

constexpr std::array<Kind, 10> kinds{{
    {"GGUF", ""},
    {"FUGG", "a GGUF file in reversed byte order"},
    {"lmgg", "a model in the older GGML format, to be converted again"},
    {"fmgg", "a model in the older GGMF format, to be converted again"},
    {"tjgg", "a model in the older GGJT format, to be converted again"},
    {"PK\x03\x04", "a zip archive or PyTorch checkpoint"},
    {"\x80\x02", "a PyTorch checkpoint"},
    {"\x1f\x8b", "a gzip archive"},
    {"\x28\xb5\x2f\xfd", "a zstd archive"},
    {"version https://git-lfs", "a Git LFS pointer, its file not downloaded"},
}};

// A little-endian u64 header size and the header, which is JSON.
bool is_safetensors(std::string_view start) {
  return start.size() > 8 && start[8] == '{' && start.substr(5, 3) == std::string_view("\0\0\0", 3);
}

bool is_text(std::string_view start) {
  return !start.empty() && std::all_of(start.begin(), start.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 ? byte >= '\t' && byte <= '\r' : byte != 0x7f;
  });
}

}  // namespace

const char* guess_file_kind(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t looked_at = 64;
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), looked_at));
  for (const Kind& kind : kinds) {
    if (start.starts_with(kind.start)) return kind.text;
  }
  if (is_safetensors(start)) return "a safetensors file";
  return is_text(start) ? "text" : "";
}

}  // namespace runnel
