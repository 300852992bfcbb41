// Cross-entropy over a vocabulary split by columns, in three steps.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void row_maxima(Matrix logits, std::int64_t valid, float* row_max) {
  const Lanes lowest = splat(-__builtin_inff());
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const T* row = row_of<T>(logits, t);
    LaneMaximum best;
    for_lanes(valid, [&] PLUMBLINE_LANES { best.take(keep(load(row + i, part), lowest, part)); });
    row_max[t] = largest(best);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void row_sums(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                     const std::int32_t* targets, const float* row_max, Matrix sums) {
  float* exponentials = row_of<float>(sums, 0);
  float* at_target = row_of<float>(sums, 1);
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const T* row = row_of<T>(logits, t);
    const float top = row_max[t];
    LaneSum total;
    for_lanes(valid, [&] PLUMBLINE_LANES { total += keep(exp(load(row + i, part) - top), Lanes{}, part); });
    exponentials[t] = sum(total);
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;  // an ignored target is nobody's
    at_target[t] = mine ? load(row + column, First{1})[0] - top : 0.0F;
  }
}

constexpr std::int64_t kBlock = 1024;  // columns, of which the first with the largest logit is looked through

template <class T>
PLUMBLINE_MULTIVERSION void row_choices(Matrix logits, std::int64_t valid, Matrix choice) {
  const Lanes lowest = splat(-__builtin_inff());
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const T* row = row_of<T>(logits, t);
    float top = -__builtin_inff();
    std::int64_t column = 0;
    for (std::int64_t first = 0; first < valid; first += kBlock) {
      LaneMaximum best;
      for_lanes(std::min(kBlock, valid - first),
                [&] PLUMBLINE_LANES { best.take(keep(load(row + first + i, part), lowest, part)); });
      if (!(largest(best) > top)) continue;
      top = largest(best);
      column = first;
    }
    while (column < valid - 1 && load(row + column, First{1})[0] != top) ++column;
    LaneSum total;
    for_lanes(valid, [&] PLUMBLINE_LANES { total += keep(exp(load(row + i, part) - top), Lanes{}, part); });
    row_of<float>(choice, 0)[t] = top;
    row_of<float>(choice, 1)[t] = sum(total);
    row_of<float>(choice, 2)[t] = static_cast<float>(column);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void loss_gradient_in_place(Matrix logits, std::int64_t valid,
                                                   std::int64_t first_token, const std::int32_t* targets,
                                                   const float* row_max, const float* exponentials,
                                                   float scale) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    T* row = row_of<T>(logits, t);
    if (targets[t] == kIgnoredTarget) {
      std::memset(row, 0, static_cast<std::size_t>(logits.cols) * sizeof(T));
      continue;
    }
    const float top = row_max[t];
    const float factor = scale / exponentials[t];
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;
    // The target's entry is computed apart, so that it is rounded once.
    const Lanes at_target = mine ? exp(load(row + column, First{1}) - top) * factor - scale : Lanes{};
    for_lanes(valid, [&] PLUMBLINE_LANES { store(row + i, exp(load(row + i, part) - top) * factor, part); });
    if (mine) store(row + column, at_target, First{1});
    std::memset(row + valid, 0, static_cast<std::size_t>(logits.cols - valid) * sizeof(T));
  }
}

}  // namespace

void CpuOperators::cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  with_type("cross_entropy_max", logits.dtype,
            [&](auto type) { row_maxima<decltype(type)>(logits, valid, row_max.as<float>()); });
}

void CpuOperators::cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                      Matrix targets, Matrix row_max, Matrix sums) {
  with_type("cross_entropy_sums", logits.dtype, [&](auto type) {
    row_sums<decltype(type)>(logits, valid, first_token, targets.as<std::int32_t>(), row_max.as<float>(),
                             sums);
  });
}

Number CpuOperators::cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                            Matrix targets, Matrix row_max, Matrix sums, double scale) {
  const auto* target = targets.as<std::int32_t>();
  const auto* exponentials = row_of<float>(sums, 0);
  const auto* at_target = row_of<float>(sums, 1);
  double loss = 0;
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    if (target[t] != kIgnoredTarget) loss += std::log(static_cast<double>(exponentials[t])) - at_target[t];
  }
  with_type("cross_entropy_gradient", logits.dtype, [&](auto type) {
    loss_gradient_in_place<decltype(type)>(logits, valid, first_token, target, row_max.as<float>(),
                                           exponentials, static_cast<float>(scale));
  });
  return loss;
}

void CpuOperators::greedy_choice(Matrix logits, std::int64_t valid, Matrix choice) {
  with_type("greedy_choice", logits.dtype,
            [&](auto type) { row_choices<decltype(type)>(logits, valid, choice); });
}

}  // namespace plumbline::cpu
