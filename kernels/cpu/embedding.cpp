// Token and position embeddings.
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T, class G>
PLUMBLINE_INLINE void add_row(const T* from, G* to, std::int64_t count) {
  for_lanes(count, [&] PLUMBLINE_LANES { store(to + i, load(to + i, part) + load(from + i, part), part); });
}

template <class T, class G>
PLUMBLINE_MULTIVERSION void scatter_rows(const std::int32_t* tokens, Matrix dy, std::int64_t first_token,
                                         Matrix dtable) {
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    const std::int64_t row = tokens[t] - first_token;
    if (row < 0 || row >= dtable.rows) continue;
    add_row(row_of<T>(dy, t), row_of<G>(dtable, row), dy.cols);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void gather_rows(const std::int32_t* tokens, Matrix table, Matrix x) {
  for (std::int64_t t = 0; t < x.rows; ++t) add_row(row_of<T>(table, tokens[t]), row_of<T>(x, t), x.cols);
}

/// to[t modulo to_period] += from[t modulo from_period] for every t below `rows`.
template <class T, class G>
PLUMBLINE_MULTIVERSION void add_rows(Matrix from, std::int64_t from_period, Matrix to, std::int64_t to_period,
                                     std::int64_t rows) {
  for (std::int64_t t = 0; t < rows; ++t) {
    add_row(row_of<T>(from, t % from_period), row_of<G>(to, t % to_period), from.cols);
  }
}

}  // namespace

void CpuOperators::embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) {
  with_type("embedding_forward", y.dtype, [](auto /*known*/) {});
  const auto bytes = static_cast<std::size_t>(y.cols * size_of(y.dtype));
  for (std::int64_t t = 0; t < y.rows; ++t) {
    const std::int64_t row = tokens.as<std::int32_t>()[t] - first_token;
    if (row >= 0 && row < table.rows) {
      std::memcpy(y.at(t, 0), table.at(row, 0), bytes);
    } else {
      std::memset(y.at(t, 0), 0, bytes);
    }
  }
}

void CpuOperators::embedding_add(Matrix tokens, Matrix table, Matrix x) {
  with_type("embedding_add", x.dtype,
            [&](auto type) { gather_rows<decltype(type)>(tokens.as<std::int32_t>(), table, x); });
}

void CpuOperators::embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) {
  with_types("embedding_backward", dy.dtype, dtable.dtype, [&](auto type, auto gradient) {
    scatter_rows<decltype(type), decltype(gradient)>(tokens.as<std::int32_t>(), dy, first_token, dtable);
  });
}

void CpuOperators::position_forward(Matrix x, Matrix table, std::int64_t seq) {
  with_type("position_forward", x.dtype,
            [&](auto type) { add_rows<decltype(type), decltype(type)>(table, seq, x, x.rows, x.rows); });
}

void CpuOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  with_types("position_backward", dy.dtype, dtable.dtype, [&](auto type, auto gradient) {
    add_rows<decltype(type), decltype(gradient)>(dy, dy.rows, dtable, seq, dy.rows);
  });
}

}  // namespace plumbline::cpu
