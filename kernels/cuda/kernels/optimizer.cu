// AdamW, gradient descent, Lion, momentum and norms. Floors per parameter in bf16 with fp32 state and
// gradients: adam 4 (gradient) + 24 (master and moments, read and written) + 2 (parameter) bytes, lion 8
// fewer; momentum 4 + 8 + 2; squared_norm reads once.
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

template <class P, class G>
struct AdamBody {
  P* parameter;
  const G* gradient;
  float *master, *moment1, *moment2;
  AdamFactors factors;
  __device__ void operator()(unsigned /*row*/, std::int64_t col, Part part) const {
    float g[kChunk];
    float m[kChunk];
    float v[kChunk];
    float value[kChunk];
    load(gradient + col, part, g);
    load(moment1 + col, part, m);
    load(moment2 + col, part, v);
    if (master != nullptr) {
      load(master + col, part, value);
    } else {
      load(parameter + col, part, value);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) adam_update(factors, g[i], m[i], v[i], value[i]);
    store(moment1 + col, part, m);
    store(moment2 + col, part, v);
    store(parameter + col, part, value);
    if (master != nullptr) store(master + col, part, value);
  }
};

template <class P, class G>
struct SgdBody {
  P* parameter;
  const G* gradient;
  float* master;
  float decay;
  float factor;
  __device__ void operator()(unsigned /*row*/, std::int64_t col, Part part) const {
    float g[kChunk];
    float value[kChunk];
    load(gradient + col, part, g);
    if (master != nullptr) {
      load(master + col, part, value);
    } else {
      load(parameter + col, part, value);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) value[i] = value[i] * decay - g[i] * factor;
    store(parameter + col, part, value);
    if (master != nullptr) store(master + col, part, value);
  }
};

template <class P, class G>
struct LionBody {
  P* parameter;
  const G* gradient;
  float *master, *momentum;
  LionFactors factors;
  __device__ void operator()(unsigned /*row*/, std::int64_t col, Part part) const {
    float g[kChunk];
    float m[kChunk];
    float value[kChunk];
    load(gradient + col, part, g);
    load(momentum + col, part, m);
    if (master != nullptr) {
      load(master + col, part, value);
    } else {
      load(parameter + col, part, value);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) lion_update(factors, g[i], m[i], value[i]);
    store(momentum + col, part, m);
    store(parameter + col, part, value);
    if (master != nullptr) store(master + col, part, value);
  }
};

template <class G, class U>
struct MomentumBody {
  const G* gradient;
  float* momentum;
  U* update;
  MomentumFactors factors;
  __device__ void operator()(unsigned /*row*/, std::int64_t col, Part part) const {
    float g[kChunk];
    float m[kChunk];
    load(gradient + col, part, g);
    load(momentum + col, part, m);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      g[i] *= factors.gradient_scale;
      m[i] = m[i] * factors.keep + g[i] * factors.add;
      g[i] = g[i] * factors.of_gradient + m[i] * factors.of_momentum;
    }
    store(momentum + col, part, m);
    if (update != nullptr) store(update + col, part, g);
  }
};

template <class T>
struct DivideByRootBody {
  T* x;
  const double* sum;
  float epsilon;
  __device__ void operator()(unsigned /*row*/, std::int64_t col, Part part) const {
    const float factor = 1 / fmaxf(static_cast<float>(sqrt(*sum)), epsilon);
    float values[kChunk];
    load(x + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] *= factor;
    store(x + col, part, values);
  }
};

template <class T>
__global__ void __launch_bounds__(256)
    squares_kernel(View<const T> x, unsigned chunks, FastDivide chunks_per_row, std::int64_t cols,
                   bool aligned, double* partials) {
  double total = 0;
  for (unsigned i = block_x() * block_threads() + thread_x(); i < chunks; i += grid_x() * block_threads()) {
    const unsigned row = chunks_per_row.quotient(i);
    const std::int64_t col = static_cast<std::int64_t>(i - row * chunks_per_row.divisor()) * kChunk;
    float values[kChunk];
    load(x.row(row) + col, part_at(col, cols, aligned), values);
#pragma unroll
    for (int k = 0; k < kChunk; ++k) total += static_cast<double>(values[k]) * values[k];
  }
  total = block_reduce(total, Sum());
  if (thread_x() == 0) partials[block_x()] = total;
}

__global__ void __launch_bounds__(256)
    total_kernel(const double* partials, std::int64_t count, double* result) {
  double total = 0;
  for (std::int64_t i = thread_x(); i < count; i += block_threads()) total += partials[i];
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *result = total;
}

template <class F>
void with_elements(DType parameter, DType gradient, F&& f) {
  with_element(parameter, [&](auto p) { with_element(gradient, [&](auto g) { f(p, g); }); });
}

}  // namespace

void adam(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, Matrix moment1,
          Matrix moment2, const AdamFactors& factors) {
  const bool aligned = all_aligned(flattened(parameter), flattened(gradient), flattened(master),
                                   flattened(moment1), flattened(moment2));
  with_elements(parameter.dtype, gradient.dtype, [&](auto p, auto g) {
    using P = decltype(p);
    using G = decltype(g);
    in_pieces(parameter.elements(), [&](std::int64_t first, std::int64_t count) {
      over_chunks(queue, 1, count, aligned,
                  AdamBody<P, G>{parameter.as<P>() + first, gradient.as<const G>() + first,
                                 master.data == nullptr ? nullptr : master.as<float>() + first,
                                 moment1.as<float>() + first, moment2.as<float>() + first, factors});
    });
  });
}

void sgd(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, float decay, float factor) {
  const bool aligned = all_aligned(flattened(parameter), flattened(gradient), flattened(master));
  with_elements(parameter.dtype, gradient.dtype, [&](auto p, auto g) {
    using P = decltype(p);
    using G = decltype(g);
    in_pieces(parameter.elements(), [&](std::int64_t first, std::int64_t count) {
      over_chunks(
          queue, 1, count, aligned,
          SgdBody<P, G>{parameter.as<P>() + first, gradient.as<const G>() + first,
                        master.data == nullptr ? nullptr : master.as<float>() + first, decay, factor});
    });
  });
}

void lion(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, Matrix momentum,
          const LionFactors& factors) {
  const bool aligned =
      all_aligned(flattened(parameter), flattened(gradient), flattened(master), flattened(momentum));
  with_elements(parameter.dtype, gradient.dtype, [&](auto p, auto g) {
    using P = decltype(p);
    using G = decltype(g);
    in_pieces(parameter.elements(), [&](std::int64_t first, std::int64_t count) {
      over_chunks(queue, 1, count, aligned,
                  LionBody<P, G>{parameter.as<P>() + first, gradient.as<const G>() + first,
                                 master.data == nullptr ? nullptr : master.as<float>() + first,
                                 momentum.as<float>() + first, factors});
    });
  });
}

void momentum(const Queue& queue, Matrix gradient, Matrix momentum, Matrix update,
              const MomentumFactors& factors) {
  const bool aligned = all_aligned(flattened(gradient), flattened(momentum), flattened(update));
  with_elements(gradient.dtype, update.data == nullptr ? DType::fp32 : update.dtype, [&](auto g, auto u) {
    using G = decltype(g);
    using U = decltype(u);
    in_pieces(gradient.elements(), [&](std::int64_t first, std::int64_t count) {
      over_chunks(queue, 1, count, aligned,
                  MomentumBody<G, U>{gradient.as<const G>() + first, momentum.as<float>() + first,
                                     update.data == nullptr ? nullptr : update.as<U>() + first, factors});
    });
  });
}

void divide_by_root(const Queue& queue, Matrix x, const double* sum, float epsilon) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    in_pieces(x.elements(), [&](std::int64_t first, std::int64_t count) {
      over_chunks(queue, 1, count, all_aligned(flattened(x)),
                  DivideByRootBody<T>{x.as<T>() + first, sum, epsilon});
    });
  });
}

namespace {

std::int64_t sums_of_piece(const Queue& queue, std::int64_t elements) {
  constexpr std::int64_t kBlocksPerProcessor = 8;
  constexpr std::int64_t kElementsPerBlock = 256 * kChunk;
  return std::clamp<std::int64_t>(elements / kElementsPerBlock, 1,
                                  queue.multiprocessors * kBlocksPerProcessor);
}

}  // namespace

std::int64_t norm_sums(const Queue& queue, Matrix x) {
  std::int64_t sums = 0;
  in_row_pieces(flattened(x), [&](const Matrix& piece) { sums += sums_of_piece(queue, piece.elements()); });
  return sums;
}

void squared_norm(const Queue& queue, Matrix x, double* partials, std::int64_t count, double* result) {
  double* sums = partials;
  in_row_pieces(flattened(x), [&](const Matrix& piece) {
    const unsigned chunks = chunks_of(piece.rows, piece.cols);
    const std::int64_t blocks = sums_of_piece(queue, piece.elements());
    with_element(piece.dtype, [&](auto type) {
      using T = decltype(type);
      launch(queue, {.x = static_cast<unsigned>(blocks), .threads = 256}, squares_kernel<T>,
             View<const T>(piece), chunks, FastDivide(chunks / static_cast<unsigned>(piece.rows)), piece.cols,
             all_aligned(piece), sums);
    });
    sums += blocks;
  });
  launch(queue, {.x = 1, .threads = 256}, total_kernel, partials, count, result);
}

}  // namespace plumbline::cuda
