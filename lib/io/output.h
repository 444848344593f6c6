// Where the bytes of a new file go, front to back: to a disk (atomic_file.h) or to memory (memory_output.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lib/result.h"

namespace runnel {

// Takes the next of the bytes that somebody has to give; an error ends the giving.
using TakeBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;

class Output {
 public:
  virtual ~Output() = default;

  // Once, before the first write: the size the whole will have.
  virtual Result<void> begin(std::uint64_t n_bytes) = 0;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  // Completes it; nothing can be written after that.
  virtual Result<void> commit() = 0;

  virtual std::uint64_t n_bytes() const = 0;    // written so far
  virtual const std::string& path() const = 0;  // for messages
};

}  // namespace runnel
