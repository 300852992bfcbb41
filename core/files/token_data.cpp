#include "core/files/token_data.hpp"

#include <Random123/philox.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/files/npy_header.hpp"

namespace plumbline {
namespace {

template <class T>
std::int64_t load(std::span<const std::byte> bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return static_cast<std::int64_t>(value);
}

}  // namespace

TokenSource::TokenSource(const std::string& path, std::int64_t vocab, std::int64_t seq_length,
                         std::uint64_t seed)
    : vocab_(vocab), seq_length_(seq_length), seed_(seed) {
  if (vocab < 1 || vocab > std::int64_t{1} << 31 || seq_length < 1) {
    throw InputError(fmt::format("data: vocabulary {} and sequence length {}, expected positive sizes", vocab,
                                 seq_length));
  }
  if (path.empty()) return;
  file_ = MappedFile(path);
  if (path.ends_with(".npy") || has_npy_magic(file_.bytes())) {
    read_npy_header(path);
  } else {
    const std::size_t bytes = file_.bytes().size();
    if (bytes % sizeof(std::int32_t) != 0) {
      throw InputError(fmt::format("{}: {} bytes long, expected whole int32 token ids (or a .npy file)",
                                   printable(path, 400), bytes));
    }
    tokens_ = static_cast<std::int64_t>(bytes / sizeof(std::int32_t));
  }
  if (tokens_ < 2) {
    throw InputError(fmt::format("{}: {} token ids, expected at least 2", printable(path, 400), tokens_));
  }
  path_ = path;
  constexpr std::int64_t kCheckedAtOnce = std::int64_t{1} << 26;
  for (std::int64_t i = 0; i < std::min(tokens_, kCheckedAtOnce); ++i) checked_id(i);
}

void TokenSource::read_npy_header(const std::string& path) {
  const NpyHeader header = parse_npy_header(file_.bytes(), path);
  static constexpr std::pair<std::string_view, Element> kElements[] = {
      {"<i4", Element::int32}, {"<i8", Element::int64}, {"<u2", Element::uint16}, {"<u4", Element::uint32}};
  const auto* const found = std::find_if(std::begin(kElements), std::end(kElements),
                                         [&](const auto& entry) { return entry.first == header.type; });
  if (found == std::end(kElements)) {
    throw InputError(fmt::format("{}: elements of type \"{}\", expected <i4, <i8, <u2 or <u4", path,
                                 printable(header.type)));
  }
  if (header.shape.size() > 2 || header.shape.empty() || (header.fortran_order && header.shape.size() > 1)) {
    throw InputError(fmt::format("{}: {} dimensions{}, expected 1 or 2 in C order", path, header.shape.size(),
                                 header.fortran_order ? " in Fortran order" : ""));
  }
  element_ = found->second;
  data_offset_ = header.data_offset;
  const std::size_t element_bytes = element_ == Element::int64 ? 8 : element_ == Element::uint16 ? 2 : 4;
  const std::size_t data_bytes = file_.bytes().size() - data_offset_;
  std::int64_t count = 1;
  bool overflows = false;
  for (const std::int64_t size : header.shape) overflows |= __builtin_mul_overflow(count, size, &count);
  if (overflows || data_bytes % element_bytes != 0 ||
      static_cast<std::uint64_t>(count) != data_bytes / element_bytes) {
    throw InputError(fmt::format(
        "{}: {} bytes of data do not fit the shape in its header; the file is truncated", path, data_bytes));
  }
  tokens_ = count;
}

std::int64_t TokenSource::checked_id(std::int64_t position) const {
  const std::span<const std::byte> data = file_.bytes().subspan(data_offset_);
  std::int64_t id = 0;
  switch (element_) {
    case Element::int32:
      id = load<std::int32_t>(data, position);
      break;
    case Element::int64:
      id = load<std::int64_t>(data, position);
      break;
    case Element::uint16:
      id = load<std::uint16_t>(data, position);
      break;
    case Element::uint32:
      id = load<std::uint32_t>(data, position);
      break;
  }
  if (id < 0 || id >= vocab_) {
    throw InputError(fmt::format("{}: token {} is {}, expected an id from 0 to {} (the model's vocabulary)",
                                 printable(path_, 400), position, id, vocab_ - 1));
  }
  return id;
}

std::vector<std::int32_t> TokenSource::sample(std::int64_t index) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(seq_length_) + 1);
  if (tokens_ == 0) {
    const r123::Philox4x32::key_type key = {
        {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)}};
    for (std::size_t j = 0; j < ids.size(); j += 4) {
      const auto block = static_cast<std::uint64_t>(j / 4);
      const auto sample = static_cast<std::uint64_t>(index);
      const auto bits =
          r123::Philox4x32()({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                               static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)}},
                             key);
      for (std::size_t k = j; k < std::min(j + 4, ids.size()); ++k) {
        // A 32-bit fraction of the vocabulary: even to 1 in 2^32 / vocab.
        ids[k] =
            static_cast<std::int32_t>(std::uint64_t{bits[k - j]} * static_cast<std::uint64_t>(vocab_) >> 32);
      }
    }
    return ids;
  }
  __extension__ using Wide = unsigned __int128;  // index × seq_length may pass 64 bits
  auto position = static_cast<std::int64_t>(static_cast<Wide>(index) * static_cast<Wide>(seq_length_) %
                                            static_cast<Wide>(tokens_));
  for (std::int32_t& id : ids) {
    id = static_cast<std::int32_t>(checked_id(position));
    position = position + 1 == tokens_ ? 0 : position + 1;
  }
  return ids;
}

}  // namespace plumbline
