// Hashes that are the same on every machine and with every library, unlike std::hash.
#pragma once

#include <cstdint>
#include <string_view>

namespace plumbline {

/// FNV-1a of 64 bits (Fowler, Noll, Vo; RFC 9923): its start value, and the factor of every step.
constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325U;
constexpr std::uint64_t kFnvPrime = 0x100000001b3U;

/// One step: FNV-1a takes a byte, and a number above 255 is as good.
constexpr std::uint64_t fnv1a_step(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * kFnvPrime;
}

/// FNV-1a of the bytes of `text`, going on from `hash`.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = fnv1a_step(hash, static_cast<unsigned char>(c));
  return hash;
}

/// `hash` with a word mixed in, for tables in memory: fast, and no more than good enough for them. The factor
/// is 2^64 divided by the golden ratio.
constexpr std::uint64_t mix_word(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

}  // namespace plumbline
