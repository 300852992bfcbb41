// Merges results of attention over different keys (Dao et al. 2022, arXiv:2205.14135 §3.1, between calls).
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void merge_row(T* out, const T* added, std::int64_t cols, float own, float other) {
  for_lanes(cols, [&] PLUMBLINE_LANES {
    store(out + i, load(out + i, part) * own + load(added + i, part) * other, part);
  });
}

}  // namespace

void CpuOperators::attention_merge(Matrix out, Matrix lse, Matrix part, Matrix part_lse) {
  const std::int64_t head_dim = out.cols / lse.rows;
  with_type("attention_merge", out.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t head = 0; head < lse.rows; ++head) {
      float* whole = row_of<float>(lse, head);
      const float* added = row_of<float>(part_lse, head);
      for (std::int64_t row = 0; row < out.rows; ++row) {
        const float top = std::max(whole[row], added[row]);
        const float sum = top + std::log(std::exp(whole[row] - top) + std::exp(added[row] - top));
        merge_row<T>(row_of<T>(out, row) + head * head_dim, row_of<T>(part, row) + head * head_dim, head_dim,
                     std::exp(whole[row] - sum), std::exp(added[row] - sum));
        whole[row] = sum;
      }
    }
  });
}

}  // namespace plumbline::cpu
