#include "analysis/serving/kv_cache.hpp"

#include <algorithm>

namespace plumbline {

Bytes kv_cache_bytes(const StageShape& shape, std::int64_t sequences, std::int64_t length) {
  std::int64_t tokens = 0;  // of a sequence, over the layers
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t window = shape.kind_of(layer).window;
    tokens += window > 0 ? std::min(window, length) : length;
  }
  return {tokens * (shape.attention.k + shape.attention.values()) * sequences * shape.numerics.e()};
}

}  // namespace plumbline
