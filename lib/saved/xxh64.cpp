#include "lib/saved/xxh64.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/io/little_endian.h"

namespace runnel {
namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5u;

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * prime2, 31) * prime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * prime1 + prime4;
}

}  // namespace

Xxh64::Xxh64(std::uint64_t seed)
    : seed_(seed), lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1} {}

void Xxh64::consume(const std::byte* bytes) {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i] = round(lanes_[i], load<std::uint64_t>(bytes + i * sizeof(std::uint64_t)));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  const std::size_t n_held = n_bytes_ % stripe;
  n_bytes_ += bytes.size();
  if (n_held > 0) {
    const std::size_t n = std::min(bytes.size(), stripe - n_held);
    std::memcpy(held_.data() + n_held, bytes.data(), n);
    bytes = bytes.subspan(n);
    if (n_held + n < stripe) return;
    consume(held_.data());
  }
  for (; bytes.size() >= stripe; bytes = bytes.subspan(stripe)) consume(bytes.data());
  if (!bytes.empty()) std::memcpy(held_.data(), bytes.data(), bytes.size());
}

std::uint64_t Xxh64::digest() const {
  std::uint64_t hash = seed_ + prime5;
  if (n_bytes_ >= stripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += n_bytes_;
  const std::byte* at = held_.data();
  const std::byte* end = at + n_bytes_ % stripe;
  for (; end - at >= 8; at += 8)
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(at)), 27) * prime1 + prime4;
  for (; end - at >= 4; at += 4)
    hash = std::rotl(hash ^ load<std::uint32_t>(at) * prime1, 23) * prime2 + prime3;
  for (; at < end; ++at) hash = std::rotl(hash ^ load<std::uint8_t>(at) * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

}  // namespace runnel
