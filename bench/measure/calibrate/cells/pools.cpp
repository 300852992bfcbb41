#include "bench/measure/calibrate/cells/pools.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "core/base/error.hpp"

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

/// Reads one byte of every cache line.
void touch(const std::byte* data, std::int64_t bytes) {
  unsigned sum = 0;
  for (std::int64_t i = 0; i < bytes; i += 64) sum += static_cast<unsigned>(data[i]);
  benchmark::DoNotOptimize(sum);
}

}  // namespace

Pool::Pool(Bytes size, Content content, Pages pages) : pages_(pages), size_(size.value) {
  data_ = static_cast<std::byte*>(
      std::aligned_alloc(static_cast<std::size_t>(kHugePage), static_cast<std::size_t>(size_)));
  if (data_ == nullptr) throw std::bad_alloc();
  ::madvise(data_, static_cast<std::size_t>(size_), pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (content == Content::zeros) {
    std::memset(data_, 0, static_cast<std::size_t>(size_));
  } else {
    fill_normal(data_, size_, content == Content::normal_bf16);
  }
}

Pool::~Pool() {
  std::free(data_);
}

void Pool::clear() {
  std::memset(data_, 0, static_cast<std::size_t>(size_));
}

void Pool::touch_taken() const {
  touch(data_, used_);
}

void* Pool::take(std::int64_t bytes) {
  if (pages_ == Pages::huge && bytes >= kHugePage) used_ = (used_ + kHugePage - 1) / kHugePage * kHugePage;
  if (used_ + bytes > size_) {
    throw Error(fmt::format("calibrate: a pool of {} bytes has no {} bytes left", size_, bytes));
  }
  void* at = data_ + used_;
  used_ += stride_of(bytes);
  return at;
}

Pools::Pools(const PoolSizes& sizes)
    : sizes_(sizes),
      inputs_(sizes.large, Pool::Content::normal_bf16, Pool::Pages::huge),
      state_(sizes.state, Pool::Content::normal_fp32, Pool::Pages::huge),
      outputs_(sizes.large, Pool::Content::zeros, Pool::Pages::huge),
      small_inputs_(sizes.small, Pool::Content::normal_bf16, Pool::Pages::ordinary),
      small_outputs_(sizes.small, Pool::Content::zeros, Pool::Pages::ordinary) {}

void Pools::set_storage(DType storage) {
  if (storage == storage_) return;
  storage_ = storage;
  outputs_.clear();
  small_outputs_.clear();
}

void Pools::begin(Bytes working_set, Bytes bytes_per_call) {
  inputs_.rewind();
  state_.rewind();
  outputs_.rewind();
  small_inputs_.rewind();
  small_outputs_.rewind();
  copies_ = std::max<std::int64_t>(1, working_set.value / std::max<std::int64_t>(1, bytes_per_call.value));
}

Matrix Pools::fresh(Pool& small, Pool& large, std::int64_t rows, std::int64_t cols, DType type) {
  const std::int64_t bytes = rows * cols * size_of(type);
  return {(bytes < kHugePage ? small : large).take(bytes), rows, cols, type};
}

Matrix Pools::fresh(std::int64_t rows, std::int64_t cols) {
  return fresh(small_inputs_, inputs_, rows, cols, storage_);
}
Matrix Pools::fresh_mask(std::int64_t rows, std::int64_t cols) {
  return fresh(small_outputs_, outputs_, rows, cols, DType::uint8);
}

void Pools::touch_all() {
  for (const Pool* pool : {&inputs_, &state_, &outputs_, &small_inputs_, &small_outputs_})
    pool->touch_taken();
}

Rotation Pools::rotate(Pool& pool, std::int64_t rows, std::int64_t cols, DType type, std::int64_t copies) {
  const std::int64_t step = stride_of(rows * cols * size_of(type));
  copies = std::clamp<std::int64_t>(pool.left() / step, 1, copies);
  void* first = pool.take(step * copies);
  return {Matrix(first, rows, cols, type), step, copies};
}

Rotation Pools::activation(Pool& small, Pool& large, std::int64_t rows, std::int64_t cols, DType type) {
  const std::int64_t bytes = rows * cols * size_of(type);
  const std::int64_t copies =
      std::clamp<std::int64_t>(sizes_.activations.value / stride_of(bytes), 1, copies_);
  return rotate(bytes < kHugePage ? small : large, rows, cols, type, copies);
}

Rotation Pools::saved(std::int64_t rows, std::int64_t cols) {
  return activation(small_inputs_, inputs_, rows, cols, storage_);
}
Rotation Pools::output(std::int64_t rows, std::int64_t cols) {
  return activation(small_outputs_, outputs_, rows, cols, storage_);
}
Rotation Pools::saved_mask(std::int64_t rows, std::int64_t cols) {
  return activation(small_inputs_, inputs_, rows, cols, DType::uint8);
}
Rotation Pools::mask(std::int64_t rows, std::int64_t cols) {
  return activation(small_outputs_, outputs_, rows, cols, DType::uint8);
}
Rotation Pools::weights(std::int64_t rows, std::int64_t cols) {
  return rotate(inputs_, rows, cols, storage_, copies_);
}
Rotation Pools::updated(std::int64_t rows, std::int64_t cols) {
  return rotate(outputs_, rows, cols, storage_, copies_);
}
Rotation Pools::weights_fp32(std::int64_t rows, std::int64_t cols) {
  return rotate(state_, rows, cols, DType::fp32, copies_);
}
Rotation Pools::updated_fp32(std::int64_t rows, std::int64_t cols) {
  return rotate(outputs_, rows, cols, DType::fp32, copies_);
}

Matrix Pools::fresh_quantized(std::int64_t rows, std::int64_t cols) {
  return fresh(small_inputs_, inputs_, rows, cols, DType::fp8_e4m3);
}
Rotation Pools::weights_quantized(std::int64_t rows, std::int64_t cols) {
  return rotate(inputs_, rows, cols, DType::fp8_e4m3, copies_);
}
Rotation Pools::output_quantized(std::int64_t rows, std::int64_t cols) {
  return activation(small_outputs_, outputs_, rows, cols, DType::fp8_e4m3);
}

Matrix Pools::scratch(std::int64_t elements) {
  return {small_outputs_.take(elements * 4), 1, elements, DType::fp32};
}

Matrix Pools::tokens(std::int64_t count, std::int64_t limit) {
  Matrix ids(small_outputs_.take(count * 4), 1, count, DType::int32);
  std::mt19937_64 random(7);
  for (std::int64_t i = 0; i < count; ++i) {
    ids.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit)));
  }
  return ids;
}

}  // namespace plumbline::calibration
