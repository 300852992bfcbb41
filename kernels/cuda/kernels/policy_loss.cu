// Losses of reinforcement learning: the policy's over a vocabulary split by columns, one block per row, and
// the critic's. Floors, in elements per logit: entropies 1, gradient 2.
#include "kernels/policy_loss.hpp"

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/ignored_target.hpp"
#include "kernels/value_loss.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr std::int64_t kStep = std::int64_t{kThreads} * kChunk;

template <class T>
__global__ void __launch_bounds__(kThreads)
    entropies_kernel(View<const T> logits, std::int64_t rows, std::int64_t valid, const float* row_max,
                     float* entropies, bool aligned) {
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
        if (i < part.count) total += expf(values[i] - top) * (values[i] - top);
      }
    }
    total = block_reduce(total, Sum());
    if (thread_x() == 0) entropies[row] = total;
  }
}

/// *result = the loss summed over rows. One block.
__global__ void __launch_bounds__(kThreads)
    policy_loss_kernel(const std::int32_t* targets, View<const float> sums, const float* entropies,
                       View<const float> tokens, std::int64_t rows, PolicyLoss loss, double scale,
                       View<float> factors, double* result) {
  double total = 0;
  for (std::int64_t t = thread_x(); t < rows; t += kThreads) {
    PolicyFactors of = {0, 0, 0, 0};
    if (targets[t] != kIgnoredTarget) {
      of = policy_factors({sums.row(0)[t], sums.row(1)[t], loss.entropy_coef == 0 ? 0.0 : entropies[t],
                           tokens.row(0)[t], tokens.row(1)[t], tokens.row(2)[t], tokens.row(3)[t]},
                          loss, scale);
    }
    total += of.loss;
    factors.row(0)[t] = of.target;
    factors.row(1)[t] = of.product;
    factors.row(2)[t] = of.constant;
  }
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *result = total;
}

/// Likewise; the gradient is a column.
template <class T>
__global__ void __launch_bounds__(kThreads)
    value_loss_kernel(const std::int32_t* targets, const float* values, View<const float> tokens,
                      std::int64_t rows, double clip, double scale, View<T> gradient, double* result) {
  double total = 0;
  for (std::int64_t t = thread_x(); t < rows; t += kThreads) {
    ValueLoss of = {0, 0};
    if (targets[t] != kIgnoredTarget)
      of = value_loss_of(values[t], tokens.row(0)[t], tokens.row(2)[t], tokens.row(3)[t], clip);
    total += of.loss;
    *gradient.row(t) = from_float<T>(static_cast<float>(scale * of.slope));
  }
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *result = total;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    policy_gradient_kernel(View<T> logits, std::int64_t rows, std::int64_t cols, std::int64_t valid,
                           std::int64_t first_token, const std::int32_t* targets, const float* row_max,
                           View<const float> factors, bool aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    T* data = logits.row(row);
    const bool ignored = targets[row] == kIgnoredTarget;
    const std::int64_t column = targets[row] - first_token;
    const float top = row_max[row];
    const float at_target = factors.row(0)[row];
    const float product = factors.row(1)[row];
    const float constant = factors.row(2)[row];
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < cols; col += kStep) {
      float values[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(data + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float x = values[i] - top;
        const float gradient = expf(x) * (x * product + constant) + (col + i == column ? at_target : 0.0F);
        values[i] = ignored || col + i >= valid ? 0.0F : gradient;
      }
      store(data + col, part, values);
    }
  }
}

}  // namespace

void entropy_sums(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max, Matrix entropies) {
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, entropies_kernel<T>,
           View<const T>(logits), logits.rows, valid, row_max.as<const float>(), entropies.as<float>(),
           all_aligned(logits));
  });
}

void policy_loss(const Queue& queue, Matrix targets, Matrix sums, Matrix entropies, Matrix tokens,
                 const PolicyLoss& loss, double scale, Matrix factors, double* result) {
  launch(queue, {.x = 1, .threads = kThreads}, policy_loss_kernel, targets.as<const std::int32_t>(),
         View<const float>(sums), entropies.as<const float>(), View<const float>(tokens), targets.cols, loss,
         scale, View<float>(factors), result);
}

void policy_gradient(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                     Matrix targets, Matrix row_max, Matrix factors) {
  if (logits.rows == 0) return;
  with_element(logits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_for(queue, logits.rows, 1), .threads = kThreads}, policy_gradient_kernel<T>,
           View<T>(logits), logits.rows, logits.cols, valid, first_token, targets.as<const std::int32_t>(),
           row_max.as<const float>(), View<const float>(factors), all_aligned(logits));
  });
}

void value_loss(const Queue& queue, Matrix targets, Matrix values, Matrix tokens, double clip, double scale,
                Matrix gradient, double* result) {
  with_element(gradient.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = 1, .threads = kThreads}, value_loss_kernel<T>, targets.as<const std::int32_t>(),
           values.as<const float>(), View<const float>(tokens), targets.cols, clip, scale, View<T>(gradient),
           result);
  });
}

}  // namespace plumbline::cuda
