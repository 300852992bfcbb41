// Size of the keys and values that generation keeps.
#pragma once

#include <cstdint>

#include "analysis/step/stage_shape.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// KV cache of a stage on one rank. A layer has 2 · key/value heads of the rank · head size elements per
/// token, with latent attention those of its keys and values after the up-projection or, `compressed`, the
/// compressed vector and the rotated elements, on every tensor rank. A layer with a window keeps the
/// window's tokens alone.
Bytes kv_cache_bytes(const StageShape& shape, std::int64_t sequences, std::int64_t length, bool compressed);

}  // namespace plumbline
