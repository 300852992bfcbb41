// Cross-entropy of vocabulary parallelism: each shard's softmax by itself, put right once all are known.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cpu {
namespace {

constexpr std::int64_t kRowsPerShard = 3;  // maximum, sum, target's logit

template <class T>
PLUMBLINE_INLINE void clear(T* row, std::int64_t from, std::int64_t end) {
  std::memset(row + from, 0, static_cast<std::size_t>(end - from) * sizeof(T));
}

template <class T>
PLUMBLINE_MULTIVERSION void softmax_in_place(Matrix logits, std::int64_t valid, const float* row_max,
                                             const float* row_sum) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    T* row = row_of<T>(logits, t);
    if (row_sum[t] == 0) {
      clear(row, 0, logits.cols);
      continue;
    }
    const float top = row_max[t];
    const float factor = 1.0F / row_sum[t];
    for_lanes(valid, [&] PLUMBLINE_LANES { store(row + i, exp(load(row + i, part) - top) * factor, part); });
    clear(row, valid, logits.cols);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void softmax_gradient_in_place(Matrix softmax, std::int64_t valid,
                                                      std::int64_t first_token, const std::int32_t* targets,
                                                      const float* alpha, float scale) {
  for (std::int64_t t = 0; t < softmax.rows; ++t) {
    T* row = row_of<T>(softmax, t);
    if (targets[t] == kIgnoredTarget) {
      clear(row, 0, softmax.cols);
      continue;
    }
    const float factor = alpha[t] * scale;
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;
    // The target's entry is computed apart, so that it is rounded once.
    const Lanes at_target = mine ? load(row + column, First{1}) * factor - scale : Lanes{};
    for_lanes(valid, [&] PLUMBLINE_LANES { store(row + i, load(row + i, part) * factor, part); });
    if (mine) store(row + column, at_target, First{1});
    clear(row, valid, softmax.cols);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void input_gradient(Matrix product, Matrix table, std::int64_t first_token,
                                           const std::int32_t* targets, const float* alpha, float scale) {
  for (std::int64_t t = 0; t < product.rows; ++t) {
    float* row = row_of<float>(product, t);
    if (targets[t] == kIgnoredTarget) {
      clear(row, 0, product.cols);
      continue;
    }
    const float factor = alpha[t] * scale;
    const std::int64_t at = first_token == kRowPerToken ? t : targets[t] - first_token;
    if (at < 0 || at >= table.rows) {
      for_lanes(product.cols, [&] PLUMBLINE_LANES { store(row + i, load(row + i, part) * factor, part); });
      continue;
    }
    const T* target = row_of<T>(table, at);
    for_lanes(product.cols, [&] PLUMBLINE_LANES {
      store(row + i, load(row + i, part) * factor - load(target + i, part) * scale, part);
    });
  }
}

}  // namespace

void CpuOperators::vocab_softmax(Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  with_type("vocab_softmax", logits.dtype, [&](auto type) {
    softmax_in_place<decltype(type)>(logits, valid, row_max.as<float>(), row_sum.as<float>());
  });
}

Number CpuOperators::vocab_combine(Matrix gathered, Matrix targets, std::int64_t columns, std::int64_t own,
                                   Matrix alpha) {
  const std::int64_t shards = gathered.rows / kRowsPerShard;
  const std::int64_t tokens = gathered.cols;
  const auto at = [&](std::int64_t shard, std::int64_t what, std::int64_t t) -> double {
    return row_of<float>(gathered, shard * kRowsPerShard + what)[t];
  };
  double loss = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double top = at(0, 0, t);
    for (std::int64_t i = 1; i < shards; ++i) top = std::max(top, at(i, 0, t));
    double total = 0;
    for (std::int64_t i = 0; i < shards; ++i) total += at(i, 1, t) * std::exp(at(i, 0, t) - top);
    alpha.as<float>()[t] = static_cast<float>(at(own, 1, t) * std::exp(at(own, 0, t) - top) / total);
    const std::int32_t target = targets.as<std::int32_t>()[t];
    if (target == kIgnoredTarget) continue;
    loss += std::log(total);
    const std::int64_t owner = target / columns;
    if (target >= 0 && owner < shards) loss -= at(owner, 2, t) + at(owner, 0, t) - top;
  }
  return loss;
}

void CpuOperators::vocab_gradient(Matrix softmax, std::int64_t valid, std::int64_t first_token,
                                  Matrix targets, Matrix alpha, double scale) {
  with_type("vocab_gradient", softmax.dtype, [&](auto type) {
    softmax_gradient_in_place<decltype(type)>(softmax, valid, first_token, targets.as<std::int32_t>(),
                                              alpha.as<float>(), static_cast<float>(scale));
  });
}

void CpuOperators::vocab_input_gradient(Matrix product, Matrix table, std::int64_t first_token,
                                        Matrix targets, Matrix alpha, double scale) {
  with_type("vocab_input_gradient", table.dtype, [&](auto type) {
    input_gradient<decltype(type)>(product, table, first_token, targets.as<std::int32_t>(), alpha.as<float>(),
                                   static_cast<float>(scale));
  });
}

}  // namespace plumbline::cpu
