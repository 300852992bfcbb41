// Cross-entropy over a vocabulary split by columns, one block per row. Floors, in elements per logit: max 1,
// sums 1, choice 2, gradient 2.
#include <cmath>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr std::int64_t kStep = std::int64_t{kThreads} * kChunk;

template <class T>
__global__ void __launch_bounds__(kThreads) maximum_kernel(View<const T> logits, std::int64_t rows,
                                                           std::int64_t valid, float* row_max, bool aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const T* in = logits.row(row);
    float best = -INFINITY;
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < valid; col += kStep) {
      float values[kChunk];
      const Part part = part_at(col, valid, aligned);
      load(in + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i < part.count) best = Maximum()(values[i], best);
      }
    }
    best = block_reduce(best, Maximum());
    if (thread_x() == 0) row_max[row] = best;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(View<const T> logits, std::int64_t rows, std::int64_t valid, std::int64_t first_token,
                const std::int32_t* targets, const float* row_max, float* exponentials, float* at_target,
                bool aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const T* in = logits.row(row);
    const float top = row_max[row];
    float total = 0;
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < valid; col += kStep) {
      float values[kChunk];
      const Part part = part_at(col, valid, aligned);
      load(in + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i < part.count) total += expf(values[i] - top);
      }
    }
    total = block_reduce(total, Sum());
    if (thread_x() == 0) {
      exponentials[row] = total;
      const std::int64_t column = targets[row] - first_token;  // an ignored target is nobody's
      at_target[row] = column >= 0 && column < valid ? to_float(in[column]) - top : 0.0F;
    }
  }
}

/// A logit and its column. Of equal logits the first column is the greater entry.
struct Entry {
  float value, column;  // shared memory takes no initial values
};
__device__ Entry shuffle_xor(Entry entry, int mask) {
  return {cuda::shuffle_xor(entry.value, mask), cuda::shuffle_xor(entry.column, mask)};
}
struct Greater {
  __device__ Entry operator()(Entry a, Entry b) const {
    return a.value > b.value || (a.value == b.value && a.column < b.column) ? a : b;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    choice_kernel(View<const T> logits, std::int64_t rows, std::int64_t valid, View<float> choice,
                  bool aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const T* in = logits.row(row);
    const auto over_row = [&](auto use) {
      for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < valid; col += kStep) {
        float values[kChunk];
        const Part part = part_at(col, valid, aligned);
        load(in + col, part, values);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          if (i < part.count) use(values[i], col + i);
        }
      }
    };
    Entry best = {-INFINITY, static_cast<float>(valid)};
    over_row([&](float value, std::int64_t col) {
      best = Greater()(best, {value, static_cast<float>(col)});
    });
    best = block_reduce(best, Greater());
    float total = 0;
    over_row([&](float value, std::int64_t /*col*/) { total += expf(value - best.value); });
    total = block_reduce(total, Sum());
    if (thread_x() == 0) {
      choice.row(0)[row] = best.value;
      choice.row(1)[row] = total;
      choice.row(2)[row] = best.column;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(View<T> logits, std::int64_t rows, std::int64_t cols, std::int64_t valid,
                    std::int64_t first_token, const std::int32_t* targets, const float* row_max,
                    const float* exponentials, float scale, bool aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    T* data = logits.row(row);
    const bool ignored = targets[row] == kIgnoredTarget;
    const std::int64_t column = targets[row] - first_token;
    const float top = row_max[row];
    const float factor = scale / exponentials[row];
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < cols; col += kStep) {
      float values[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(data + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float gradient = expf(values[i] - top) * factor - (col + i == column ? scale : 0.0F);
        values[i] = ignored || col + i >= valid ? 0.0F : gradient;
      }
      store(data + col, part, values);
    }
  }
}

/// *loss = Σ log(exponentials) - at_target over the rows that are not ignored. One block.
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const std::int32_t* targets, const float* exponentials, const float* at_target,
                std::int64_t rows, double* loss) {
  double total = 0;
  for (std::int64_t row = thread_x(); row < rows; row += kThreads) {
    if (targets[row] != kIgnoredTarget) total += log(static_cast<double>(exponentials[row])) - at_target[row];
  }
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *loss = total;
}

}  // namespace

void cross_entropy_max(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max) {
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, maximum_kernel<T>,
           View<const T>(logits), logits.rows, valid, row_max.as<float>(), all_aligned(logits));
  });
}

void cross_entropy_sums(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                        Matrix targets, Matrix row_max, Matrix sums) {
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, sums_kernel<T>,
           View<const T>(logits), logits.rows, valid, first_token, targets.as<const std::int32_t>(),
           row_max.as<const float>(), sums.as<float>(), sums.as<float>() + sums.stride, all_aligned(logits));
  });
}

void cross_entropy_gradient(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                            Matrix targets, Matrix row_max, Matrix sums, float scale, double* loss) {
  const auto* ids = targets.as<const std::int32_t>();
  const auto* exponentials = sums.as<const float>();
  launch(queue, {.x = 1, .threads = kThreads}, loss_kernel, ids, exponentials, exponentials + sums.stride,
         logits.rows, loss);
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, gradient_kernel<T>,
           View<T>(logits), logits.rows, logits.cols, valid, first_token, ids, row_max.as<const float>(),
           exponentials, scale, all_aligned(logits));
  });
}

void greedy_choice(const Queue& queue, Matrix logits, std::int64_t valid, Matrix choice) {
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, choice_kernel<T>,
           View<const T>(logits), logits.rows, valid, View<float>(choice), all_aligned(logits));
  });
}

}  // namespace plumbline::cuda
