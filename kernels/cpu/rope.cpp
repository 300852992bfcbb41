// Rotary position embedding in place.
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void rotate(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, float direction) {
  const std::int64_t half = head_dim / 2;
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

}  // namespace

void CpuOperators::rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  require(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0 && cos.rows > 0 &&
              cos.cols == head_dim / 2 && cos.dtype == DType::fp32 && alike(cos, sin),
          "rope", "x (T, heads*head_dim), cos, sin (seq, head_dim/2) fp32, head_dim even",
          {{"x", x}, {"cos", cos}, {"sin", sin}});
  with_type("rope", x.dtype,
            [&](auto type) { rotate<decltype(type)>(x, cos, sin, head_dim, inverse ? -1.0F : 1.0F); });
}

}  // namespace plumbline::cpu
