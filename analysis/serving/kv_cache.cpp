#include "analysis/serving/kv_cache.hpp"

#include <algorithm>

namespace plumbline {

Bytes kv_cache_bytes(const StageShape& shape, std::int64_t sequences, std::int64_t length, bool compressed) {
  std::int64_t tokens = 0;  // of a sequence, over the layers
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t window = shape.kind_of(layer).window;
    tokens += window > 0 ? std::min(window, length) : length;
  }
  const AttentionWidths& widths = shape.attention;
  const std::int64_t kept =
      compressed && widths.latent() ? widths.kv_rank + widths.rotated : widths.k + widths.values();
  return {tokens * kept * sequences * shape.numerics.e()};
}

}  // namespace plumbline
