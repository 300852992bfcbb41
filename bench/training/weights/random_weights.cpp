// Fresh parameters from a counter-based generator.
#include <Random123/philox.h>
#include <Random123/boxmuller.hpp>

#include <cstddef>

#include "bench/training/weights/weights.hpp"
#include "core/base/hash.hpp"

namespace plumbline::training {
namespace {

/// The four normal numbers of one counter.
void normal4(std::uint64_t seed, std::uint64_t tensor, std::uint64_t block, float (&out)[4]) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
       static_cast<std::uint32_t>(tensor), static_cast<std::uint32_t>(tensor >> 32)}};
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const auto bits = r123::Philox4x32()(counter, key);
  const auto first = r123::boxmuller(bits[0], bits[1]);
  const auto second = r123::boxmuller(bits[2], bits[3]);
  out[0] = first.x;
  out[1] = first.y;
  out[2] = second.x;
  out[3] = second.y;
}

}  // namespace

SliceReader random_weights(std::uint64_t seed, double std_dev) {
  return [seed, std_dev](const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride) {
    const std::uint64_t tensor = fnv1a(slice.tensor);
    const float scale = static_cast<float>(std_dev);
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      float* to = out + row * stride;
      if (parameter.fill != Fill::normal) {
        for (std::int64_t col = 0; col < slice.cols; ++col)
          to[col] = parameter.fill == Fill::ones && !slice.less_one ? 1.0F : 0.0F;
        continue;
      }
      const auto first = static_cast<std::uint64_t>((slice.row + row) * slice.tensor_cols + slice.col);
      float block[4];
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(slice.cols); ++i) {
        const std::uint64_t index = first + i;
        if (i == 0 || index % 4 == 0) normal4(seed, tensor, index / 4, block);
        to[i] = scale * block[index % 4];
      }
    }
  };
}

}  // namespace plumbline::training
