// Heads of two parts, the first of which all heads share.
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void join_rows(const Matrix& shared, const Matrix& own, std::int64_t heads,
                                      const Matrix& y) {
  const std::int64_t width = own.cols / heads;
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const T* first = row_of<T>(shared, row);
    const T* second = row_of<T>(own, row);
    T* to = row_of<T>(y, row);
    for (std::int64_t head = 0; head < heads; ++head) {
      for_lanes(shared.cols, [&] PLUMBLINE_LANES { store(to + i, load(first + i, part), part); });
      to += shared.cols;
      for_lanes(width, [&] PLUMBLINE_LANES { store(to + i, load(second + i, part), part); });
      to += width;
      second += width;
    }
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void take_own_rows(const Matrix& dy, std::int64_t heads, const Matrix& own) {
  const std::int64_t width = own.cols / heads;
  const std::int64_t skipped = dy.cols / heads - width;
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    const T* from = row_of<T>(dy, row);
    T* to = row_of<T>(own, row);
    for (std::int64_t head = 0; head < heads; ++head) {
      from += skipped;
      for_lanes(width, [&] PLUMBLINE_LANES { store(to + i, load(from + i, part), part); });
      from += width;
      to += width;
    }
  }
}

template <class T, class Y>
PLUMBLINE_MULTIVERSION void add_shared_rows(const Matrix& dy, std::int64_t heads, const Matrix& shared) {
  const std::int64_t step = dy.cols / heads;
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    const T* from = row_of<T>(dy, row);
    Y* to = row_of<Y>(shared, row);
    for_lanes(shared.cols, [&] PLUMBLINE_LANES {
      LaneSum sum;
      for (std::int64_t head = 0; head < heads; ++head) sum += load(from + head * step + i, part);
      store(to + i, sum.lanes(), part);
    });
  }
}

}  // namespace

void CpuOperators::join_heads(Matrix shared, Matrix own, std::int64_t heads, Matrix y) {
  with_type("join_heads", y.dtype, [&](auto type) { join_rows<decltype(type)>(shared, own, heads, y); });
}

void CpuOperators::split_heads(Matrix dy, std::int64_t heads, Matrix shared, Matrix own) {
  with_type("split_heads", dy.dtype, [&](auto type) {
    using T = decltype(type);
    take_own_rows<T>(dy, heads, own);
    if (shared.data == nullptr) return;
    if (shared.dtype == DType::fp32) return add_shared_rows<T, float>(dy, heads, shared);
    add_shared_rows<T, T>(dy, heads, shared);
  });
}

}  // namespace plumbline::cpu
