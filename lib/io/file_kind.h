// Says what a file probably is, from its first bytes: for messages about files of the wrong kind.
#pragma once
#include <cstddef>
#include <span>

namespace runnel {

// "text", "a zip archive or PyTorch checkpoint"...; "" for GGUF and for what is not known.
const char* guess_file_kind(std::span<const std::byte> bytes) noexcept;

}  // namespace runnel
