#include "bench/calibrate/pools.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "core/error.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t stride_of(std::int64_t bytes) {
  const std::int64_t unit = bytes >= kHugePage ? kHugePage : 64;
  return (bytes + unit - 1) / unit * unit;
}

/// Normal numbers, repeated with an odd period so that no two copies are alike at the same place.
void fill_normal(std::byte* data, std::int64_t size, bool bf16) {
  constexpr std::size_t kPeriod = 65537;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::array<float, kPeriod> values{};
  for (float& value : values) value = normal(random);
  const auto count = static_cast<std::size_t>(size) / (bf16 ? 2 : 4);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[i % kPeriod], sizeof bits);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    if (bf16) {
      std::memcpy(data + 2 * i, &half, sizeof half);
    } else {
      std::memcpy(data + 4 * i, &bits, sizeof bits);
    }
  }
}

}  // namespace

Pool::Pool(Bytes size, Content content) : size_(size.value) {
  data_ = static_cast<std::byte*>(
      std::aligned_alloc(static_cast<std::size_t>(kHugePage), static_cast<std::size_t>(size_)));
  if (data_ == nullptr) throw std::bad_alloc();
  ::madvise(data_, static_cast<std::size_t>(size_), MADV_HUGEPAGE);
  if (content == Content::zeros) {
    std::memset(data_, 0, static_cast<std::size_t>(size_));
  } else {
    fill_normal(data_, size_, content == Content::normal_bf16);
  }
}

Pool::~Pool() {
  std::free(data_);
}

void* Pool::take(std::int64_t bytes) {
  if (bytes >= kHugePage) used_ = (used_ + kHugePage - 1) / kHugePage * kHugePage;
  if (used_ + bytes > size_) {
    throw Error(fmt::format("calibrate: a pool of {} bytes has no {} bytes left", size_, bytes));
  }
  void* at = data_ + used_;
  used_ += stride_of(bytes);
  return at;
}

Pools::Pools(DType storage)
    : storage_(storage),
      inputs_(kSize, storage == DType::fp32 ? Pool::Content::normal_fp32 : Pool::Content::normal_bf16),
      state_(kSize, Pool::Content::normal_fp32),
      outputs_(kSize, Pool::Content::zeros) {}

void Pools::begin(Bytes working_set, Bytes bytes_per_call) {
  inputs_.rewind();
  state_.rewind();
  outputs_.rewind();
  copies_ = std::max<std::int64_t>(1, working_set.value / std::max<std::int64_t>(1, bytes_per_call.value));
}

Matrix Pools::fresh(std::int64_t rows, std::int64_t cols) {
  return {inputs_.take(rows * cols * size_of(storage_)), rows, cols, storage_};
}

Rotation Pools::rotate(Pool& pool, std::int64_t rows, std::int64_t cols, DType type) {
  const std::int64_t step = stride_of(rows * cols * size_of(type));
  void* first = pool.take(step * copies_);
  return {Matrix(first, rows, cols, type), step, copies_};
}

Rotation Pools::saved(std::int64_t rows, std::int64_t cols) {
  return rotate(inputs_, rows, cols, storage_);
}
Rotation Pools::output(std::int64_t rows, std::int64_t cols) {
  return rotate(outputs_, rows, cols, storage_);
}
Rotation Pools::saved_fp32(std::int64_t rows, std::int64_t cols) {
  return rotate(state_, rows, cols, DType::fp32);
}
Rotation Pools::output_fp32(std::int64_t rows, std::int64_t cols) {
  return rotate(outputs_, rows, cols, DType::fp32);
}

Matrix Pools::scratch(std::int64_t elements) {
  return {outputs_.take(elements * 4), 1, elements, DType::fp32};
}

Matrix Pools::tokens(std::int64_t count, std::int64_t limit) {
  Matrix ids(outputs_.take(count * 4), 1, count, DType::int32);
  std::mt19937_64 random(7);
  for (std::int64_t i = 0; i < count; ++i) {
    ids.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit)));
  }
  return ids;
}

}  // namespace plumbline::calibration
