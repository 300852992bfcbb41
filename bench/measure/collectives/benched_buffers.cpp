#include "bench/measure/collectives/benched_buffers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace plumbline {
namespace {

constexpr std::int64_t kBorder = 512;                   // bytes; suits every transport
constexpr std::int64_t kChunk = std::int64_t{1} << 18;  // elements that are compared at a time
constexpr int kExactSummands = 85;  // of numbers up to 3: sums below 256 are exact in bf16

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + kBorder - 1) / kBorder * kBorder;
}

/// Writes the bits of a small whole number in a storage type, exact.
void encode(int number, DType type, std::byte* place) {
  if (type == DType::int32) {
    std::memcpy(place, &number, sizeof number);
    return;
  }
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (type == DType::bf16) bits >>= 16;  // its upper half; the lower is zero for such numbers
  std::memcpy(place, &bits, static_cast<std::size_t>(size_of(type)));
}

/// Calls work(first, count) for pieces of a matrix.
template <class Work>
void in_chunks(const Matrix& matrix, Work work) {
  for (std::int64_t first = 0; first < matrix.cols; first += kChunk) {
    work(first, std::min(kChunk, matrix.cols - first));
  }
}

bool is_cut(BenchedCall call) {
  return call == BenchedCall::all_gather || call == BenchedCall::reduce_scatter ||
         call == BenchedCall::all_to_all || call == BenchedCall::all_to_all_uneven;
}

}  // namespace

std::int64_t BenchedBuffers::bytes_needed(std::int64_t largest) {
  return 2 * rounded_up(largest) + kBorder;
}

BenchedBuffers::BenchedBuffers(const BenchedKind& kind, const BenchedGroup& group, bool in_place, DType type,
                               std::int64_t asked, std::byte* memory)
    : kind_(kind), group_(group) {
  const std::int64_t n = group.size();
  const bool uneven = kind.call == BenchedCall::all_to_all_uneven;
  const std::int64_t pieces = uneven ? n * (n + 1) / 2 : is_cut(kind.call) ? n : 1;
  piece_ = asked / size_of(type) / pieces;
  if (!is_cut(kind.call)) piece_ = std::max<std::int64_t>(piece_, 1);
  elements_ = piece_ * pieces;
  const auto matrix = [&](std::byte* at, bool whole) {
    return Matrix(at, 1, whole ? elements_ : piece_, type);
  };
  output = matrix(memory, kind.call != BenchedCall::reduce_scatter);
  if (in_place) {
    input = kind.call == BenchedCall::all_gather ? output.columns(group.place * piece_, piece_) : output;
  } else {
    input = matrix(memory + rounded_up(std::max(asked, size_of(type))), kind.call != BenchedCall::all_gather);
  }
  for (int peer = 0; uneven && peer < group.size(); ++peer) {
    sent.push_back(piece(group.place, peer));
    received.push_back(piece(peer, group.place));
  }
}

std::int64_t BenchedBuffers::count() const {
  return kind_.call == BenchedCall::all_to_all_uneven ? elements_ / group_.size() : piece_;
}

double BenchedBuffers::bus_factor() const {
  const double n = group_.size();
  switch (kind_.call) {
    case BenchedCall::all_reduce:
      return 2 * (n - 1) / n;
    case BenchedCall::all_gather:
    case BenchedCall::reduce_scatter:
    case BenchedCall::all_to_all:
      return (n - 1) / n;
    case BenchedCall::all_to_all_uneven: {
      std::int64_t kept = elements_;
      for (int place = 0; place < group_.size(); ++place) kept = std::min(kept, piece(place, place));
      return static_cast<double>(elements_ - kept) / static_cast<double>(elements_);
    }
    case BenchedCall::broadcast:
    case BenchedCall::send_receive:
    case BenchedCall::latency:
    case BenchedCall::bandwidth:
      break;
  }
  return 1;
}

/// Pieces of 1 to n units: every rank sends and receives as much as any other.
std::int64_t BenchedBuffers::piece(int from, int to) const {
  return kind_.call == BenchedCall::all_to_all_uneven ? ((from + to) % group_.size() + 1) * piece_ : piece_;
}

std::int64_t BenchedBuffers::first_of_piece(int from, int to) const {
  std::int64_t first = 0;
  for (int peer = 0; peer < to; ++peer) first += piece(from, peer);
  return first;
}

/// From 0 to 3, by a hash: a piece at another's place is seen.
int BenchedBuffers::value(int place, std::int64_t i) const {
  if (kind_.reduces && place >= kExactSummands) return 0;
  const std::uint64_t mixed = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U +
                              static_cast<std::uint64_t>(place + 1) * 0xD1B54A32D192ED03U;
  return static_cast<int>(mixed >> 61U & 3U);
}

int BenchedBuffers::expected(std::int64_t i) const {
  const auto sum = [&](std::int64_t at) {
    int total = 0;
    for (int place = 0; place < group_.size(); ++place) total += value(place, at);
    return total;
  };
  switch (kind_.call) {
    case BenchedCall::all_reduce:
      return sum(i);
    case BenchedCall::reduce_scatter:
      return sum(group_.place * piece_ + i);
    case BenchedCall::all_gather:
      return value(static_cast<int>(i / piece_), i % piece_);
    case BenchedCall::all_to_all:
      return value(static_cast<int>(i / piece_), group_.place * piece_ + i % piece_);
    case BenchedCall::all_to_all_uneven: {
      int from = 0;
      while (i >= received[static_cast<std::size_t>(from)]) i -= received[static_cast<std::size_t>(from++)];
      return value(from, first_of_piece(from, group_.place) + i);
    }
    case BenchedCall::broadcast:
      return value(0, i);
    case BenchedCall::send_receive:
      return value((group_.place + group_.size() - 1) % group_.size(), i);
    case BenchedCall::latency:
    case BenchedCall::bandwidth:
      break;
  }
  return value(group_.place ^ 1, i);
}

void BenchedBuffers::fill(Operators& operators) const {
  operators.fill(output, -1);
  std::vector<std::byte> bytes;
  const auto width = static_cast<std::size_t>(size_of(input.dtype));
  in_chunks(input, [&](std::int64_t first, std::int64_t count) {
    bytes.resize(static_cast<std::size_t>(count) * width);
    for (std::int64_t i = 0; i < count; ++i) {
      encode(value(group_.place, first + i), input.dtype, bytes.data() + static_cast<std::size_t>(i) * width);
    }
    operators.upload(bytes.data(), input.columns(first, count));
    operators.synchronize();  // before the bytes change
  });
}

std::int64_t BenchedBuffers::wrong(Operators& operators) const {
  // The sender of a pair receives nothing; a rank without a partner neither.
  const bool receives = !kind_.is_osu() || (group_.partner() >= 0 &&
                                            (kind_.call == BenchedCall::latency || group_.place % 2 == 1));
  if (!receives) return 0;
  std::int64_t wrong = 0;
  std::vector<std::byte> bytes;
  const auto width = static_cast<std::size_t>(size_of(output.dtype));
  in_chunks(output, [&](std::int64_t first, std::int64_t count) {
    bytes.resize(static_cast<std::size_t>(count) * width);
    operators.download(output.columns(first, count), bytes.data());
    operators.synchronize();
    for (std::int64_t i = 0; i < count; ++i) {
      std::array<std::byte, 8> exact{};
      encode(expected(first + i), output.dtype, exact.data());
      wrong += std::memcmp(bytes.data() + static_cast<std::size_t>(i) * width, exact.data(), width) != 0;
    }
  });
  return wrong;
}

}  // namespace plumbline
