// Sums, copies, fills and scaling.
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void sum_rows(Matrix a, Matrix b, float factor, const T* bias, Matrix y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const T* left = row_of<T>(a, row);
    const T* right = row_of<T>(b, row);
    T* out = row_of<T>(y, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      const Lanes total = load(left + i, part) + load(right + i, part) * factor;
      store(out + i, bias == nullptr ? total : total + load(bias + i, part), part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void sum_weighted(Matrix a, float of_a, Matrix b, float of_b, Matrix y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const T* left = row_of<T>(a, row);
    const T* right = row_of<T>(b, row);
    T* out = row_of<T>(y, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      store(out + i, load(left + i, part) * of_a + load(right + i, part) * of_b, part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void sum_columns(Matrix dy, float* sums) {
  for (std::int64_t row = 0; row < dy.rows; ++row) {
    const T* in = row_of<T>(dy, row);
    for_lanes(dy.cols,
              [&] PLUMBLINE_LANES { store(sums + i, load(sums + i, part) + load(in + i, part), part); });
  }
}

template <class G>
PLUMBLINE_MULTIVERSION void add_floats(const float* from, G* to, std::int64_t count) {
  for_lanes(count, [&] PLUMBLINE_LANES { store(to + i, load(to + i, part) + load(from + i, part), part); });
}

template <class From, class To>
PLUMBLINE_MULTIVERSION void convert(Matrix from, Matrix to) {
  for (std::int64_t row = 0; row < to.rows; ++row) {
    const From* in = row_of<From>(from, row);
    To* out = row_of<To>(to, row);
    for_lanes(to.cols, [&] PLUMBLINE_LANES { store(out + i, load(in + i, part), part); });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void multiply(Matrix x, float factor) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T* data = row_of<T>(x, row);
    for_lanes(x.cols, [&] PLUMBLINE_LANES { store(data + i, load(data + i, part) * factor, part); });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void set_all(Matrix x, float value) {
  const Lanes lanes = splat(value);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T* data = row_of<T>(x, row);
    for_lanes(x.cols, [&] PLUMBLINE_LANES { store(data + i, lanes, part); });
  }
}

}  // namespace

void CpuOperators::add(Matrix a, Matrix b, Matrix bias, Matrix y) {
  add_multiple(a, b, 1, bias, y);
}

void CpuOperators::add_multiple(Matrix a, Matrix b, double factor, Matrix bias, Matrix y) {
  const bool gapless = bias.data == nullptr && a.contiguous() && b.contiguous() && y.contiguous();
  const auto times = static_cast<float>(factor);
  with_type("add", y.dtype, [&](auto type) {
    using T = decltype(type);
    if (gapless) {
      sum_rows<T>(flattened(a), flattened(b), times, nullptr, flattened(y));
    } else {
      sum_rows<T>(a, b, times, bias.as<T>(), y);
    }
  });
}

void CpuOperators::weighted_sum(Matrix a, double of_a, Matrix b, double of_b, Matrix y) {
  const bool gapless = a.contiguous() && b.contiguous() && y.contiguous();
  with_type("weighted_sum", y.dtype, [&](auto type) {
    using T = decltype(type);
    sum_weighted<T>(gapless ? flattened(a) : a, static_cast<float>(of_a), gapless ? flattened(b) : b,
                    static_cast<float>(of_b), gapless ? flattened(y) : y);
  });
}

void CpuOperators::bias_backward(Matrix dy, Matrix dbias) {
  float* sums = column_sums(dy.cols);
  with_type("bias_backward", dy.dtype, [&](auto type) { sum_columns<decltype(type)>(dy, sums); });
  add_column_sums(sums, dbias);
}

void CpuOperators::add_column_sums(const float* sums, const Matrix& to) {
  with_type("column sums", to.dtype, [&](auto type) { add_floats(sums, to.as<decltype(type)>(), to.cols); });
}

void CpuOperators::fill(Matrix x, double value) {
  if (x.dtype == DType::int32) {
    for (std::int64_t row = 0; row < x.rows; ++row) {
      std::int32_t* data = row_of<std::int32_t>(x, row);
      for (std::int64_t i = 0; i < x.cols; ++i) data[i] = static_cast<std::int32_t>(value);
    }
    return;
  }
  with_type("fill", x.dtype,
            [&](auto type) { set_all<decltype(type)>(flattened(x), static_cast<float>(value)); });
}

void CpuOperators::copy(Matrix from, Matrix to) {
  const bool gapless = from.contiguous() && to.contiguous();
  const Matrix source = gapless ? flattened(from) : from;
  const Matrix target = gapless ? flattened(to) : to;
  if (from.dtype == to.dtype) {
    const auto bytes = static_cast<std::size_t>(source.cols * size_of(source.dtype));
    for (std::int64_t row = 0; row < source.rows && bytes > 0; ++row) {
      std::memcpy(target.at(row, 0), source.at(row, 0), bytes);
    }
    return;
  }
  with_types("copy", from.dtype, to.dtype, [&](auto from_type, auto to_type) {
    convert<decltype(from_type), decltype(to_type)>(source, target);
  });
}

void CpuOperators::scale(Matrix x, double factor) {
  with_type("scale", x.dtype,
            [&](auto type) { multiply<decltype(type)>(flattened(x), static_cast<float>(factor)); });
}

void CpuOperators::upload(const void* host, Matrix x) {
  if (!x.empty()) std::memcpy(x.data, host, static_cast<std::size_t>(x.bytes().value));
}

void CpuOperators::download(Matrix x, void* host) {
  if (!x.empty()) std::memcpy(host, x.data, static_cast<std::size_t>(x.bytes().value));
}

}  // namespace plumbline::cpu
