// Floor: reads every part and writes the sum.
#include "kernels/cuda/attention/key_gradients.hpp"

#include "kernels/cuda/device/over_chunks.cuh"

namespace plumbline::cuda {
namespace {

template <class T>
struct SumOfParts {
  View<const T> parts;
  View<T> sum;
  std::int64_t rows;
  std::int64_t count;
  __device__ void operator()(std::int64_t row, std::int64_t col, Part part) const {
    float total[kChunk] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      float values[kChunk];
      load(parts.row(i * rows + row) + col, part, values);
#pragma unroll
      for (int e = 0; e < kChunk; ++e) total[e] += values[e];
    }
    store(sum.row(row) + col, part, total);
  }
};

}  // namespace

void sum_key_gradients(const Queue& queue, const Matrix& parts, const Matrix& sum) {
  with_element(sum.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, sum.rows, sum.cols, all_aligned(parts, sum),
                SumOfParts<T>{View<const T>(parts), View<T>(sum), sum.rows, parts.rows / sum.rows});
  });
}

}  // namespace plumbline::cuda
