// Cross-entropy of vocabulary parallelism. Floors, in elements per logit: softmax 2, gradient 2; per element
// of dX: 2 of it and 1 of the table.
#include <cmath>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kRowsPerShard = 3;  // maximum, sum, target's logit

template <class T>
struct SoftmaxBody {
  View<T> logits;
  std::int64_t valid;
  const float* row_max;
  const float* row_sum;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(logits.row(row) + col, part, values);
    const float top = row_max[row];
    const float total = row_sum[row];
    const float factor = 1.0F / total;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      values[i] = total == 0.0F || col + i >= valid ? 0.0F : expf(values[i] - top) * factor;
    }
    store(logits.row(row) + col, part, values);
  }
};

template <class T>
struct GradientBody {
  View<T> softmax;
  std::int64_t valid, first_token;
  const std::int32_t* targets;
  const float* alpha;
  float scale;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(softmax.row(row) + col, part, values);
    const bool ignored = targets[row] == kIgnoredTarget;
    const std::int64_t column = targets[row] - first_token;
    const float factor = alpha[row] * scale;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float gradient = values[i] * factor - (col + i == column ? scale : 0.0F);
      values[i] = ignored || col + i >= valid ? 0.0F : gradient;
    }
    store(softmax.row(row) + col, part, values);
  }
};

template <class T>
struct InputGradientBody {
  View<float> product;
  View<const T> table;
  std::int64_t table_rows, first_token;
  const std::int32_t* targets;
  const float* alpha;
  float scale;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const bool ignored = targets[row] == kIgnoredTarget;
    const std::int64_t at = first_token == kRowPerToken ? row : targets[row] - first_token;
    float values[kChunk];
    float target[kChunk] = {};
    load(product.row(row) + col, part, values);
    if (!ignored && at >= 0 && at < table_rows) load(table.row(at) + col, part, target);
    const float factor = alpha[row] * scale;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = ignored ? 0.0F : values[i] * factor - target[i] * scale;
    store(product.row(row) + col, part, values);
  }
};

/// alpha and the loss of each token.
__global__ void __launch_bounds__(kThreads)
    combine_kernel(View<const float> gathered, std::int64_t shards, std::int64_t tokens,
                   const std::int32_t* targets, std::int64_t columns, std::int64_t own, float* alpha,
                   double* losses) {
  const std::int64_t step = static_cast<std::int64_t>(grid_x()) * kThreads;
  for (std::int64_t t = static_cast<std::int64_t>(block_x()) * kThreads + thread_x(); t < tokens; t += step) {
    double top = gathered.row(0)[t];
    for (std::int64_t i = 1; i < shards; ++i) {
      const double here = gathered.row(i * kRowsPerShard)[t];
      top = here > top ? here : top;
    }
    double total = 0;
    double mine = 0;
    for (std::int64_t i = 0; i < shards; ++i) {
      const float* row = gathered.row(i * kRowsPerShard);
      const double part = gathered.row(i * kRowsPerShard + 1)[t] * exp(row[t] - top);
      total += part;
      if (i == own) mine = part;
    }
    alpha[t] = static_cast<float>(mine / total);
    const std::int32_t target = targets[t];
    double loss = target == kIgnoredTarget ? 0.0 : log(total);
    const std::int64_t owner = target / columns;
    if (target >= 0 && owner < shards) {
      loss -= gathered.row(owner * kRowsPerShard + 2)[t] +
              (static_cast<double>(gathered.row(owner * kRowsPerShard)[t]) - top);
    }
    losses[t] = loss;
  }
}

/// *result = the sum of the losses. One block.
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const double* losses, std::int64_t tokens, double* result) {
  double total = 0;
  for (std::int64_t t = thread_x(); t < tokens; t += kThreads) total += losses[t];
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *result = total;
}

}  // namespace

void vocab_softmax(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, logits.rows, logits.cols, all_aligned(logits),
                SoftmaxBody<T>{View<T>(logits), valid, row_max.as<const float>(), row_sum.as<const float>()});
  });
}

void vocab_combine(const Queue& queue, Matrix gathered, Matrix targets, std::int64_t columns,
                   std::int64_t own, Matrix alpha, double* losses, double* result) {
  launch(queue, {.x = blocks_for(queue, gathered.cols, kThreads), .threads = kThreads}, combine_kernel,
         View<const float>(gathered), gathered.rows / kRowsPerShard, gathered.cols,
         targets.as<const std::int32_t>(), columns, own, alpha.as<float>(), losses);
  launch(queue, {.x = 1, .threads = kThreads}, loss_kernel, static_cast<const double*>(losses), gathered.cols,
         result);
}

void vocab_gradient(const Queue& queue, Matrix softmax, std::int64_t valid, std::int64_t first_token,
                    Matrix targets, Matrix alpha, float scale) {
  with_element(softmax.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, softmax.rows, softmax.cols, all_aligned(softmax),
                GradientBody<T>{View<T>(softmax), valid, first_token, targets.as<const std::int32_t>(),
                                alpha.as<const float>(), scale});
  });
}

void vocab_input_gradient(const Queue& queue, Matrix product, Matrix table, std::int64_t first_token,
                          Matrix targets, Matrix alpha, float scale) {
  with_element(table.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, product.rows, product.cols, all_aligned(product, table),
                InputGradientBody<T>{View<float>(product), View<const T>(table), table.rows, first_token,
                                     targets.as<const std::int32_t>(), alpha.as<const float>(), scale});
  });
}

}  // namespace plumbline::cuda
