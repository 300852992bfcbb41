// Fresh parameters from a counter-based generator.
#include <Random123/philox.h>
#include <Random123/boxmuller.hpp>
#include <Random123/uniform.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/weights/weights.hpp"
#include "core/base/hash.hpp"
#include "core/base/run_parallel.hpp"
#include "core/run/processors.hpp"

namespace plumbline::training {
namespace {

r123::Philox4x32::ctr_type bits_of(std::uint64_t seed, std::uint64_t tensor, std::uint64_t block) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
       static_cast<std::uint32_t>(tensor), static_cast<std::uint32_t>(tensor >> 32)}};
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  return r123::Philox4x32()(counter, key);
}

/// The four normal numbers of one counter.
void normal4(std::uint64_t seed, std::uint64_t tensor, std::uint64_t block, float (&out)[4]) {
  const r123::Philox4x32::ctr_type bits = bits_of(seed, tensor, block);
  const auto first = r123::boxmuller(bits[0], bits[1]);
  const auto second = r123::boxmuller(bits[2], bits[3]);
  out[0] = first.x;
  out[1] = first.y;
  out[2] = second.x;
  out[3] = second.y;
}

/// The four numbers of one counter, uniform in (-1, 1).
void uniform4(std::uint64_t seed, std::uint64_t tensor, std::uint64_t block, float (&out)[4]) {
  const r123::Philox4x32::ctr_type bits = bits_of(seed, tensor, block);
  for (std::size_t i = 0; i < 4; ++i) out[i] = r123::uneg11<float>(bits[i]);
}

/// Rows `begin` to `end` of the slice.
void fill_rows(std::uint64_t seed, float scale, const Parameter& parameter, const Slice& slice, float* out,
               std::int64_t stride, std::int64_t begin, std::int64_t end) {
  const std::uint64_t tensor = fnv1a(slice.tensor);
  const bool uniform = parameter.fill == Fill::uniform;
  if (uniform) scale = 1 / std::sqrt(static_cast<float>(slice.tensor_cols));
  for (std::int64_t row = begin; row < end; ++row) {
    float* to = out + row * stride;
    if (parameter.fill == Fill::ones || parameter.fill == Fill::zeros) {
      std::fill_n(to, slice.cols, parameter.fill == Fill::ones && !slice.less_one ? 1.0F : 0.0F);
      continue;
    }
    const auto first = static_cast<std::uint64_t>((slice.row + row) * slice.tensor_cols + slice.col);
    float block[4];
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(slice.cols); ++i) {
      const std::uint64_t index = first + i;
      if (i == 0 || index % 4 == 0) (uniform ? uniform4 : normal4)(seed, tensor, index / 4, block);
      to[i] = scale * block[index % 4];
    }
  }
}

constexpr std::int64_t kElementsPerThread = std::int64_t{1} << 18;  // some milliseconds
constexpr std::int64_t kMostThreads = 32;

}  // namespace

SliceReader random_weights(std::uint64_t seed, double std_dev, int threads) {
  const std::int64_t most =
      std::clamp<std::int64_t>(threads > 0 ? threads : available_processors(), 1, kMostThreads);
  return
      [seed, std_dev, most](const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride) {
        const auto scale = static_cast<float>(std_dev);
        const std::int64_t parts =
            std::clamp<std::int64_t>(slice.rows * slice.cols / kElementsPerThread, 1,
                                     std::max<std::int64_t>(1, std::min(most, slice.rows)));
        const auto fill = [&](std::size_t index) {
          const auto part = static_cast<std::int64_t>(index);
          fill_rows(seed, scale, parameter, slice, out, stride, slice.rows * part / parts,
                    slice.rows * (part + 1) / parts);
        };
        run_parallel(static_cast<std::size_t>(parts), fill);
      };
}

SliceReader with_adapters(SliceReader base, SliceReader adapters) {
  return [base = std::move(base), adapters = std::move(adapters)](
             const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride) {
    (is_adapter(parameter) ? adapters : base)(parameter, slice, out, stride);
  };
}

}  // namespace plumbline::training
