// RMSNorm and LayerNorm: a block takes one row after the other. Floors, in elements per element of x: forward
// 2 (4 for a row that is summed on the way), backward 3 (4 with a residual); the second pass over a row
// within a kernel finds it in cache. Weight gradients: each block sums its rows in shared memory into a row
// of partial sums, which are added up in order. Rows too wide for shared memory are summed in that row
// itself.
#include <type_traits>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

/// A row that is there.
template <class T>
struct StoredRows {
  View<const T> x;
  __device__ void make(std::int64_t /*row*/, std::int64_t /*col*/, Part /*part*/) const {}
  __device__ const T* row(std::int64_t index) const { return x.row(index); }
};
/// A row that a block sums first. A thread reads only its own writes: no barrier is needed.
template <class T>
struct SummedRows {
  View<const T> a, b;
  float factor;  // of b
  const T* bias;
  View<T> sum;
  __device__ void make(std::int64_t row, std::int64_t col, Part part) const {
    float left[kChunk];
    float right[kChunk];
    load(a.row(row) + col, part, left);
    load(b.row(row) + col, part, right);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) left[i] += factor * right[i];
    if (bias != nullptr) {
      load(bias + col, part, right);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) left[i] += right[i];
    }
    store(sum.row(row) + col, part, left);
  }
  __device__ const T* row(std::int64_t index) const {
    return sum.row(index);
  }
};

template <class T, bool kCentered, class Rows>
__global__ void __launch_bounds__(256)
    norm_forward_kernel(Rows x, const T* w, const T* b, View<T> y, float* mean, float* rstd,
                        std::int64_t rows, std::int64_t cols, float epsilon, bool aligned) {
  const std::int64_t step = static_cast<std::int64_t>(block_threads()) * kChunk;
  const std::int64_t first = static_cast<std::int64_t>(thread_x()) * kChunk;
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    for (std::int64_t col = first; col < cols; col += step) x.make(row, col, part_at(col, cols, aligned));
    const T* in = x.row(row);
    float center = 0;
    if constexpr (kCentered) {
      float total = 0;
      for (std::int64_t col = first; col < cols; col += step) {
        float values[kChunk];
        load(in + col, part_at(col, cols, aligned), values);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) total += values[i];
      }
      center = block_reduce(total, Sum()) / static_cast<float>(cols);
    }
    float squares = 0;
    for (std::int64_t col = first; col < cols; col += step) {
      float values[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(in + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float distance = i < part.count ? values[i] - center : 0.0F;
        squares += distance * distance;
      }
    }
    const float r = 1.0F / sqrtf(block_reduce(squares, Sum()) / static_cast<float>(cols) + epsilon);
    if (thread_x() == 0) {
      rstd[row] = r;
      if constexpr (kCentered) mean[row] = center;
    }
    T* out = y.row(row);
    for (std::int64_t col = first; col < cols; col += step) {
      float values[kChunk];
      float weight[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(in + col, part, values);
      load(w + col, part, weight);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) values[i] = (values[i] - center) * r * weight[i];
      if constexpr (kCentered) {
        load(b + col, part, weight);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) values[i] += weight[i];
      }
      store(out + col, part, values);
    }
  }
}

/// With n = (x - mean)·r (mean 0 for RMSNorm) and g = dy·w: RMSNorm dx = residual + r·(g - n·mean(g·n)),
/// LayerNorm dx = residual + r·(g - mean(g) - n·mean(g·n)), dw = Σ dy·n, db = Σ dy. A thread owns the
/// columns it sums: no barrier is needed between rows.
template <class T, bool kCentered, bool kInShared>
__global__ void __launch_bounds__(256)
    norm_backward_kernel(View<const T> dy, View<const T> x, const T* w, const float* mean, const float* rstd,
                         View<const T> residual, View<T> dx, std::int64_t rows, std::int64_t cols,
                         bool aligned, float* partials) {
  // In shared memory the sums of column col + i lie at col - first + i·threads of the thread's own:
  // neighbouring threads touch neighbouring banks.
  const std::int64_t step = static_cast<std::int64_t>(block_threads()) * kChunk;
  const std::int64_t first = static_cast<std::int64_t>(thread_x()) * kChunk;
  float* own = partials + block_x() * (kCentered ? 2 : 1) * cols;
  float* dw = own;
  float* db = own + cols;
  if constexpr (kInShared) {
    dw = reinterpret_cast<float*>(dynamic_shared()) + thread_x() - first;
    db = dw + (cols + step - 1) / step * step;
  }
  const auto slot = [](int i) {
    return kInShared ? i * static_cast<std::int64_t>(block_threads()) : std::int64_t{i};
  };
  for (std::int64_t col = first; col < cols; col += step) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (!kInShared && col + i >= cols) continue;
      dw[col + slot(i)] = 0;
      if constexpr (kCentered) db[col + slot(i)] = 0;
    }
  }
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const T* gradient = dy.row(row);
    const T* in = x.row(row);
    const float r = rstd[row];
    float center = 0;
    if constexpr (kCentered) center = mean[row];
    Two sums{0, 0};
    for (std::int64_t col = first; col < cols; col += step) {
      float d[kChunk];
      float normal[kChunk];
      float weight[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(gradient + col, part, d);
      load(in + col, part, normal);
      load(w + col, part, weight);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i >= part.count) continue;
        const float n = (normal[i] - center) * r;
        dw[col + slot(i)] += d[i] * n;
        if constexpr (kCentered) db[col + slot(i)] += d[i];
        sums.a += d[i] * weight[i] * n;
        sums.b += d[i] * weight[i];
      }
    }
    sums = block_reduce(sums, Sum());
    const float product_mean = sums.a / static_cast<float>(cols);
    const float gradient_mean = kCentered ? sums.b / static_cast<float>(cols) : 0.0F;
    T* out = dx.row(row);
    for (std::int64_t col = first; col < cols; col += step) {
      float d[kChunk];
      float normal[kChunk];
      float weight[kChunk];
      const Part part = part_at(col, cols, aligned);
      load(gradient + col, part, d);
      load(in + col, part, normal);
      load(w + col, part, weight);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float n = (normal[i] - center) * r;
        d[i] = (d[i] * weight[i] - gradient_mean - n * product_mean) * r;
      }
      if (residual.data != nullptr) {
        load(residual.row(row) + col, part, normal);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) d[i] += normal[i];
      }
      store(out + col, part, d);
    }
  }
  if constexpr (kInShared) {
    for (std::int64_t col = first; col < cols; col += step) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (col + i >= cols) continue;
        own[col + i] = dw[col + slot(i)];
        if constexpr (kCentered) own[cols + col + i] = db[col + slot(i)];
      }
    }
  }
}

/// Threads that give each at least one chunk of a row, a whole number of warps.
unsigned threads_for(std::int64_t cols) {
  const std::int64_t chunks = (cols + kChunk - 1) / kChunk;
  return static_cast<unsigned>(std::clamp<std::int64_t>((chunks + 31) / 32 * 32, 32, 256));
}

template <class F>
void with_constant(bool value, F&& f) {
  if (value) return f(std::true_type());
  return f(std::false_type());
}

template <template <class> class Rows, class T>
void launch_forward(const Queue& queue, const Rows<T>& x, const Matrix& w, const Matrix& b, const Matrix& y,
                    const Matrix& mean, const Matrix& rstd, double epsilon, bool aligned) {
  with_constant(mean.data != nullptr, [&](auto centered) {
    launch(queue, {.x = blocks_for(queue, y.rows, 1), .threads = threads_for(y.cols)},
           norm_forward_kernel<T, decltype(centered)::value, Rows<T>>, x, w.as<const T>(), b.as<const T>(),
           View<T>(y), mean.as<float>(), rstd.as<float>(), y.rows, y.cols, static_cast<float>(epsilon),
           aligned);
  });
}

}  // namespace

void norm_forward(const Queue& queue, Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                  double epsilon) {
  if (x.empty()) return;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch_forward(queue, StoredRows<T>{View<const T>(x)}, w, b, y, mean, rstd, epsilon,
                   all_aligned(x, w, b, y));
  });
}

void added_norm_forward(const Queue& queue, const ResidualSum& added, Matrix w, Matrix b, Matrix y,
                        Matrix mean, Matrix rstd, double epsilon) {
  if (y.empty()) return;
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    const SummedRows<T> rows{View<const T>(added.a), View<const T>(added.b), static_cast<float>(added.factor),
                             added.bias.as<const T>(), View<T>(added.sum)};
    launch_forward(queue, rows, w, b, y, mean, rstd, epsilon,
                   all_aligned(added.a, added.b, added.bias, added.sum, w, b, y));
  });
}

std::int64_t norm_partials(const Queue& queue, std::int64_t rows) {
  constexpr std::int64_t kBlocksPerProcessor = 8;
  return std::clamp<std::int64_t>(rows / 4, 1, queue.multiprocessors * kBlocksPerProcessor);
}

void norm_backward(const Queue& queue, Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                   Matrix residual, Matrix dx, Matrix dw, Matrix db, float* partials, std::int64_t count) {
  if (x.empty()) return;
  const bool is_centered = mean.data != nullptr;
  const std::int64_t sums = is_centered ? 2 : 1;
  const std::int64_t width = sums * x.cols;
  const unsigned threads = threads_for(x.cols);
  const std::int64_t step = static_cast<std::int64_t>(threads) * kChunk;
  const auto bytes = static_cast<std::size_t>(sums * ((x.cols + step - 1) / step * step)) * sizeof(float);
  const bool fits = bytes <= queue.shared_bytes;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_constant(is_centered, [&](auto centered) {
      with_constant(fits, [&](auto in_shared) {
        launch(queue,
               {.x = static_cast<unsigned>(count), .threads = threads, .dynamic_shared = fits ? bytes : 0},
               norm_backward_kernel<T, decltype(centered)::value, decltype(in_shared)::value>,
               View<const T>(dy), View<const T>(x), w.as<const T>(), mean.as<const float>(),
               rstd.as<const float>(), View<const T>(residual), View<T>(dx), x.rows, x.cols,
               all_aligned(dy, x, w, residual, dx), partials);
      });
    });
  });
  if (dw.empty()) return;  // of a frozen norm
  add_partials(queue, partials, count, width, dw);
  if (is_centered) add_partials(queue, partials + x.cols, count, width, db);
}

}  // namespace plumbline::cuda
