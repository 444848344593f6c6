// A file made in memory.
#pragma once
#include <memory>

#include "lib/io/output.h"

namespace runnel {

// Zeroed memory of its own pages, in large ones where the system has them.
class AnonymousMemory {
 public:
  static Result<AnonymousMemory> allocate(std::uint64_t n_bytes);

  AnonymousMemory() = default;
  AnonymousMemory(AnonymousMemory&& other) noexcept;
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept;
  ~AnonymousMemory();

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;  // aligned to a page
  std::size_t size_ = 0;
};

// Writes to `memory`, which it allocates and which the caller keeps.
class MemoryOutput final : public Output {
 public:
  MemoryOutput(std::shared_ptr<AnonymousMemory> memory, std::string name)
      : memory_(std::move(memory)), name_(std::move(name)) {}

  Result<void> begin(std::uint64_t n_bytes) override;
  Result<void> write(std::span<const std::byte> bytes) override;
  Result<void> commit() override;
  std::uint64_t n_bytes() const override { return n_bytes_; }
  const std::string& path() const override { return name_; }

 private:
  std::shared_ptr<AnonymousMemory> memory_;
  std::string name_;
  std::uint64_t n_bytes_ = 0;
};

}  // namespace runnel
