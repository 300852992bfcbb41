#include "core/backends/nccl/stand_ins.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>

#include "core/backends/nccl/check.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{1} << 19;

struct Halves {
  std::uint32_t half = 0, one = 0;  // bits of 0.5 and 1
};

Halves halves_of(DType type) {
  switch (type) {
    case DType::fp32:
      return {0x3F000000, 0x3F800000};
    case DType::bf16:
      return {0x3F00, 0x3F80};
    case DType::fp16:
      return {0x3800, 0x3C00};
    case DType::fp8_e4m3:
      return {0x30, 0x38};
    case DType::fp8_e5m2:
      return {0x38, 0x3C};
    case DType::int32:
    case DType::uint8:
      break;
  }
  return {};
}

std::vector<std::byte> random_bytes(DType type) {
  std::vector<std::byte> bytes(kPatternBytes);
  const Halves halves = halves_of(type);
  if (halves.one == 0) return bytes;
  const auto size = static_cast<std::size_t>(size_of(type));
  const std::uint32_t sign = std::uint32_t{1} << (8 * size - 1);
  std::mt19937 random;  // the same on every rank
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const std::uint32_t drawn = random();
    const std::uint32_t bits =
        ((drawn & 1U) != 0 ? halves.half : halves.one) | ((drawn & 2U) != 0 ? sign : 0);
    std::memcpy(bytes.data() + at, &bits, size);
  }
  return bytes;
}

}  // namespace

const StandIns::Pattern& StandIns::pattern_of(DType type, cudaStream_t stream) {
  Pattern& pattern = patterns_[type];
  if (pattern.device) return pattern;
  pattern.host = random_bytes(type);
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, kPatternBytes), "cudaMalloc");
  pattern.device = std::shared_ptr<void>(data, [](void* memory) { (void)cudaFree(memory); });
  check_cuda(cudaMemcpyAsync(data, pattern.host.data(), kPatternBytes, cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  return pattern;
}

void StandIns::fill(const Matrix& x, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(x.bytes().value);
  const void* from = pattern_of(x.dtype, stream).device.get();
  // Twice as much each time, from the part that is filled.
  for (std::size_t filled = 0; filled < bytes;) {
    const std::size_t count = std::min(bytes - filled, std::max(filled, kPatternBytes));
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(x.data) + filled, from, count,
                               cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    filled += count;
    if (filled >= kPatternBytes) from = x.data;
  }
}

}  // namespace plumbline
