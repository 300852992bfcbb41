// The loss of distillation in the separate passes of eager code, one block per row, all fp32. Floors, in
// elements: softmax 2 read and 1 written, terms 2 and 1, backward 2 and 1.
#include <cmath>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 512;

__global__ void __launch_bounds__(kThreads)
    softmax_kernel(View<const float> x, View<float> y, std::int64_t rows, std::int64_t cols,
                   std::int64_t valid, bool logarithm) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const float* in = x.row(row);
    float* out = y.row(row);
    float top = -INFINITY;
    for (std::int64_t col = thread_x(); col < valid; col += kThreads) top = Maximum()(in[col], top);
    top = block_reduce(top, Maximum());
    float total = 0;
    for (std::int64_t col = thread_x(); col < valid; col += kThreads) total += expf(in[col] - top);
    total = block_reduce(total, Sum());
    const float shift = top + logf(total);
    for (std::int64_t col = thread_x(); col < cols; col += kThreads) {
      const float log_softmax = col < valid ? in[col] - shift : 0.0F;
      out[col] = col >= valid ? 0.0F : logarithm ? log_softmax : expf(log_softmax);
    }
  }
}

/// row_sums[row] = the row's terms.
__global__ void __launch_bounds__(kThreads)
    terms_kernel(View<const float> p, View<const float> log_s, View<float> terms, std::int64_t rows,
                 std::int64_t cols, std::int64_t valid, const std::int32_t* targets, double* row_sums) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const float* probability = p.row(row);
    const float* logarithm = log_s.row(row);
    float* out = terms.row(row);
    const bool ignored = targets[row] == kIgnoredTarget;
    double total = 0;
    for (std::int64_t col = thread_x(); col < cols; col += kThreads) {
      const float here = ignored || col >= valid ? 0.0F : probability[col];
      out[col] = here == 0 ? 0.0F : here * (logf(here) - logarithm[col]);  // p·log p → 0
      total += out[col];
    }
    total = block_reduce(total, Sum());
    if (thread_x() == 0) row_sums[row] = total;
  }
}

__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const double* row_sums, std::int64_t rows, double* result) {
  double total = 0;
  for (std::int64_t row = thread_x(); row < rows; row += kThreads) total += row_sums[row];
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *result = total;
}

__global__ void __launch_bounds__(kThreads)
    log_softmax_backward_kernel(View<const float> dy, View<const float> log_s, View<float> dx,
                                std::int64_t rows, std::int64_t cols, std::int64_t valid,
                                const std::int32_t* targets, float factor) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const float* gradient = dy.row(row);
    const float* logarithm = log_s.row(row);
    float* out = dx.row(row);
    const bool ignored = targets[row] == kIgnoredTarget;
    float total = 0;
    for (std::int64_t col = thread_x(); col < valid; col += kThreads) total += gradient[col];
    total = block_reduce(total, Sum());
    for (std::int64_t col = thread_x(); col < cols; col += kThreads) {
      out[col] = ignored || col >= valid ? 0.0F : factor * (gradient[col] - expf(logarithm[col]) * total);
    }
  }
}

}  // namespace

void softmax(const Queue& queue, Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  if (x.rows == 0) return;
  launch(queue, {.x = blocks_for(queue, x.rows, 1), .threads = kThreads}, softmax_kernel,
         View<const float>(x), View<float>(y), x.rows, x.cols, valid, logarithm);
}

void divergence_terms(const Queue& queue, Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                      Matrix terms, double* row_sums, double* result) {
  if (p.rows > 0) {
    launch(queue, {.x = blocks_for(queue, p.rows, 1), .threads = kThreads}, terms_kernel,
           View<const float>(p), View<const float>(log_s), View<float>(terms), p.rows, p.cols, valid,
           targets.as<const std::int32_t>(), row_sums);
  }
  launch(queue, {.x = 1, .threads = kThreads}, sum_rows_kernel, static_cast<const double*>(row_sums), p.rows,
         result);
}

void log_softmax_backward(const Queue& queue, Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                          float factor, Matrix dx) {
  if (dy.rows == 0) return;
  launch(queue, {.x = blocks_for(queue, dy.rows, 1), .threads = kThreads}, log_softmax_backward_kernel,
         View<const float>(dy), View<const float>(log_s), View<float>(dx), dy.rows, dy.cols, valid,
         targets.as<const std::int32_t>(), factor);
}

}  // namespace plumbline::cuda
