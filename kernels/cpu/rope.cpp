// Rotary position embedding in place.
#include <algorithm>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void rotate(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, float direction) {
  const std::int64_t half = cos.cols;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const float* c = row_of<float>(cos, t % cos.rows);
    const float* s = row_of<float>(sin, t % cos.rows);
    T* row = row_of<T>(x, t);
    for (T* head = row; head < row + x.cols; head += head_dim) {
      for_lanes(half, [&] PLUMBLINE_LANES {
        const Lanes x1 = load(head + i, part);
        const Lanes x2 = load(head + half + i, part);
        const Lanes cosine = load(c + i, part);
        const Lanes sine = load(s + i, part) * direction;
        store(head + i, x1 * cosine - x2 * sine, part);
        store(head + half + i, x2 * cosine + x1 * sine, part);
      });
    }
  }
}

/// Pairs of neighbours: even elements are loaded with odd ones turned, and the other way round.
template <class T>
PLUMBLINE_MULTIVERSION void rotate_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim,
                                              float direction) {
  constexpr std::int64_t kPairs = kLanes / 2;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const float* c = row_of<float>(cos, t % cos.rows);
    const float* s = row_of<float>(sin, t % cos.rows);
    T* row = row_of<T>(x, t);
    for (T* head = row; head < row + x.cols; head += head_dim) {
      for_lanes(2 * cos.cols, [&] PLUMBLINE_LANES {
        const Lanes values = load(head + i, part);
        Lanes cosine{};
        Lanes sine{};
        Lanes partners{};
        const std::int64_t pairs = std::min(kPairs, cos.cols - i / 2);
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          cosine[2 * pair] = cosine[2 * pair + 1] = c[i / 2 + pair];
          sine[2 * pair] = -direction * s[i / 2 + pair];
          sine[2 * pair + 1] = direction * s[i / 2 + pair];
          partners[2 * pair] = values[2 * pair + 1];
          partners[2 * pair + 1] = values[2 * pair];
        }
        store(head + i, values * cosine + partners * sine, part);
      });
    }
  }
}

}  // namespace

void CpuOperators::rope_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  with_type("rope_neighbours", x.dtype, [&](auto type) {
    rotate_neighbours<decltype(type)>(x, cos, sin, head_dim, inverse ? -1.0F : 1.0F);
  });
}

void CpuOperators::rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  with_type("rope", x.dtype,
            [&](auto type) { rotate<decltype(type)>(x, cos, sin, head_dim, inverse ? -1.0F : 1.0F); });
}

}  // namespace plumbline::cpu
