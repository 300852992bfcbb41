// Helpers of the MPI communicator's tests: the layouts of the ranks that were started, buffers whose contents
// any rank can make for any rank, and the modes every collective is tested in.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"

namespace plumbline::mpi_test {

inline int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

inline std::vector<Layout> layouts() {
  std::vector<Layout> found;
  const int n = world_size();
  for (int t = 1; t <= n; ++t) {
    for (int p = 1; t * p <= n; ++p) {
      if (n % (t * p) == 0) found.push_back({t, p, n / (t * p), t % 2 == 0 ? 2 : 1});
    }
  }
  return found;
}

inline float value_of(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

/// IEEE binary16 from its definition.
inline double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The half of a value that is one exactly (normal, or zero).
inline std::uint16_t half_of(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto bits =
      static_cast<std::uint16_t>((exponent + 14) << 10 | (static_cast<int>(fraction * 2048) - 1024));
  return value < 0 ? bits | 0x8000 : bits;
}

/// A buffer of one element type that any rank can make for any rank: contents follow from (rank, seed).
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;

  Buffer(DType type, std::int64_t elements)
      : dtype(type), bytes(static_cast<std::size_t>(elements * size_of(type))) {}
  static Buffer random(DType type, std::int64_t elements, int rank, unsigned seed) {
    Buffer buffer(type, elements);
    std::mt19937 generator(seed * 1000 + static_cast<unsigned>(rank));
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto whole = static_cast<std::int32_t>(generator() % 2001) - 1000;
      buffer.set(i, type == DType::int32 ? whole : static_cast<double>(whole) / 64);
    }
    return buffer;
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size()) / size_of(dtype); }
  Matrix matrix() { return {bytes.data(), 1, elements(), dtype}; }
  template <class T>
  T& as(std::int64_t i) {
    return reinterpret_cast<T*>(bytes.data())[i];
  }
  double get(std::int64_t i) {
    switch (dtype) {
      case DType::fp32:
        return as<float>(i);
      case DType::int32:
        return as<std::int32_t>(i);
      case DType::uint8:
      case DType::fp8_e4m3:  // as bytes
      case DType::fp8_e5m2:
        return as<std::uint8_t>(i);
      case DType::bf16:
        return value_of(as<std::uint16_t>(i));
      case DType::fp16:
        return half_value(as<std::uint16_t>(i));
    }
    return 0;
  }
  void set(std::int64_t i, double value) {
    switch (dtype) {
      case DType::fp32:
        as<float>(i) = static_cast<float>(value);
        break;
      case DType::int32:
        as<std::int32_t>(i) = static_cast<std::int32_t>(value);
        break;
      case DType::uint8:
      case DType::fp8_e4m3:  // as bytes
      case DType::fp8_e5m2:
        as<std::uint8_t>(i) = static_cast<std::uint8_t>(value);
        break;
      case DType::bf16:
        as<std::uint16_t>(i) =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
        break;
      case DType::fp16:
        as<std::uint16_t>(i) = half_of(value);
        break;
    }
  }
};

/// Sums of n numbers of at most 16 in magnitude, rounded up to n times to a 16-bit type.
inline double tolerance(DType type, std::size_t members) {
  if (type == DType::bf16) return static_cast<double>(members * members) * 16 / 256;
  if (type == DType::fp16) return static_cast<double>(members * members) * 16 / 2048;
  return 0;  // the values are multiples of 1/64: fp32 adds them exactly
}

/// The members of one group of this rank, to compare their results on.
class Peers {
 public:
  Peers(const Communicator& communicator, Group group) : group_(group) {
    const auto members = communicator.layout().members(group, communicator.rank());
    MPI_Comm_split(MPI_COMM_WORLD, members.front(), communicator.rank(), comm_.out());
  }
  void expect_same(const Buffer& mine) const {
    std::vector<std::byte> first = mine.bytes;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, comm_.get());
    EXPECT_TRUE(first == mine.bytes) << "members of " << name_of(group_) << " disagree";
  }

 private:
  Group group_;
  MpiComm comm_;
};

/// Every combination of waiting and piece length goes through the same checks.
struct Mode {
  const char* name;
  MpiOptions options;
};
class Collectives : public ::testing::TestWithParam<Mode> {};

}  // namespace plumbline::mpi_test
