// Heads of two parts, the first of which all heads share. Floors: both sides once.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

/// Rows of heads: of every token head after head.
struct Heads {
  FastDivide count;
  std::int64_t shared, own;  // elements of a head's parts
  __device__ unsigned token(unsigned row) const { return count.quotient(row); }
  __device__ std::int64_t head(unsigned row) const { return count.remainder(row); }
};

template <class T>
struct JoinBody {
  View<const T> shared, own;
  Heads heads;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const T* first = shared.row(heads.token(row));
    const T* second = own.row(heads.token(row)) + heads.head(row) * heads.own;
    float values[kChunk];
    if (col + part.count <= heads.shared) {
      load(first + col, part, values);
    } else if (col >= heads.shared) {
      load(second + (col - heads.shared), part, values);
    } else {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const std::int64_t at = col + i - heads.shared;
        values[i] = i >= part.count ? 0.0F : to_float(at < 0 ? first[col + i] : second[at]);
      }
    }
    store(y.row(heads.token(row)) + heads.head(row) * (heads.shared + heads.own) + col, part, values);
  }
};

template <class T>
struct TakeOwnBody {
  View<const T> dy;
  Heads heads;
  View<T> own;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const std::int64_t from = heads.head(row) * (heads.shared + heads.own) + heads.shared;
    float values[kChunk];
    load(dy.row(heads.token(row)) + from + col, part, values);
    store(own.row(heads.token(row)) + heads.head(row) * heads.own + col, part, values);
  }
};

template <class T, class Y>
struct AddSharedBody {
  View<const T> dy;
  std::int64_t heads, width;
  View<Y> shared;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float sum[kChunk] = {};
    for (std::int64_t head = 0; head < heads; ++head) {
      float values[kChunk];
      load(dy.row(row) + head * width + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += values[i];
    }
    store(shared.row(row) + col, part, sum);
  }
};

Heads heads_of(std::int64_t heads, const Matrix& own, const Matrix& whole) {
  return {FastDivide(static_cast<unsigned>(heads)), (whole.cols - own.cols) / heads, own.cols / heads};
}

bool parts_aligned(const Heads& heads, const Matrix& own, const Matrix& whole) {
  return pieces_aligned(own, heads.own) && pieces_aligned(whole, heads.shared + heads.own);
}

}  // namespace

void join_heads(const Queue& queue, Matrix shared, Matrix own, std::int64_t count, Matrix y) {
  const Heads heads = heads_of(count, own, y);
  const bool aligned = parts_aligned(heads, own, y) && rows_aligned(shared);
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows * count, heads.shared + heads.own, aligned,
                JoinBody<T>{View<const T>(shared), View<const T>(own), heads, View<T>(y)});
  });
}

void split_heads(const Queue& queue, Matrix dy, std::int64_t count, Matrix shared, Matrix own) {
  const Heads heads = heads_of(count, own, dy);
  with_element(dy.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, dy.rows * count, heads.own, parts_aligned(heads, own, dy),
                TakeOwnBody<T>{View<const T>(dy), heads, View<T>(own)});
    if (shared.data == nullptr) return;
    const auto add_up = [&](auto sum) {
      using Y = decltype(sum);
      over_chunks(queue, dy.rows, heads.shared,
                  pieces_aligned(dy, heads.shared + heads.own) && rows_aligned(shared),
                  AddSharedBody<T, Y>{View<const T>(dy), count, heads.shared + heads.own, View<Y>(shared)});
    };
    if (shared.dtype == DType::fp32) return add_up(float{});
    add_up(T{});
  });
}

}  // namespace plumbline::cuda
