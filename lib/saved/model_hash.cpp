#include "lib/saved/model_hash.h"

#include "lib/saved/xxh64.h"

namespace runnel {
namespace {

constexpr std::uint64_t n_samples = 8;  // of a tensor, spread evenly, first and last bytes among them
constexpr std::uint64_t sample_bytes = 64;

void add(Xxh64& hash, std::uint64_t number) { hash.update(std::as_bytes(std::span(&number, 1))); }

void add(Xxh64& hash, std::string_view text) {
  add(hash, text.size());
  hash.update(text);
}

void add_samples(Xxh64& hash, const std::byte* data, std::uint64_t n_bytes) {
  if (n_bytes <= n_samples * sample_bytes)
    return hash.update(std::span(data, static_cast<std::size_t>(n_bytes)));
  const std::uint64_t step = (n_bytes - sample_bytes) / (n_samples - 1);
  for (std::uint64_t i = 0; i < n_samples; ++i) {
    const std::uint64_t at = i + 1 < n_samples ? i * step : n_bytes - sample_bytes;
    hash.update(std::span(data + at, static_cast<std::size_t>(sample_bytes)));
  }
}

}  // namespace

std::uint64_t model_hash(const GgufFile& file) {
  Xxh64 hash;
  add(hash, file.metadata().size());
  for (const auto& [key, value] : file.metadata()) {
    add(hash, key);
    add(hash, static_cast<std::uint64_t>(value.type));
    add(hash, value.is_array ? value.count : 0);
    add(hash, value.n_bytes);
    hash.update(std::span(value.data, static_cast<std::size_t>(value.n_bytes)));
  }
  add(hash, file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    add(hash, tensor.name);
    add(hash, std::string_view(tensor.type->name));
    for (const std::uint64_t dim : tensor.dims) add(hash, dim);
    add_samples(hash, tensor.data, tensor.n_bytes);
  }
  return hash.digest();
}

}  // namespace runnel
