// Losses of reinforcement learning: the policy's over a vocabulary split by columns, the critic's.
#include "kernels/policy_loss.hpp"

#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/ignored_target.hpp"
#include "kernels/value_loss.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void row_entropies(Matrix logits, std::int64_t valid, const float* row_max,
                                          float* entropies) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const T* row = row_of<T>(logits, t);
    const float top = row_max[t];
    LaneSum total;
    for_lanes(valid, [&] PLUMBLINE_LANES {
      const Lanes x = keep(load(row + i, part) - top, Lanes{}, part);
      total += keep(exp(x) * x, Lanes{}, part);
    });
    entropies[t] = sum(total);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void policy_gradient_in_place(Matrix logits, std::int64_t valid,
                                                     std::int64_t first_token, const std::int32_t* targets,
                                                     const float* row_max, Matrix factors) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    T* row = row_of<T>(logits, t);
    if (targets[t] == kIgnoredTarget) {
      std::memset(row, 0, static_cast<std::size_t>(logits.cols) * sizeof(T));
      continue;
    }
    const float top = row_max[t];
    const float product = row_of<float>(factors, 1)[t];
    const float constant = row_of<float>(factors, 2)[t];
    const auto gradient = [&](auto i, auto part) __attribute__((always_inline)) {
      const Lanes x = load(row + i, part) - top;
      return exp(x) * (x * product + constant);
    };
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;
    // The target's entry is computed apart, so that it is rounded once.
    const Lanes at_target = mine ? gradient(column, First{1}) + row_of<float>(factors, 0)[t] : Lanes{};
    for_lanes(valid, [&] PLUMBLINE_LANES { store(row + i, gradient(i, part), part); });
    if (mine) store(row + column, at_target, First{1});
    std::memset(row + valid, 0, static_cast<std::size_t>(logits.cols - valid) * sizeof(T));
  }
}

template <class T>
PLUMBLINE_MULTIVERSION double value_losses(const std::int32_t* targets, const float* values, Matrix tokens,
                                           double clip, double scale, Matrix gradient) {
  double total = 0;
  for (std::int64_t t = 0; t < tokens.cols; ++t) {
    ValueLoss of{};
    if (targets[t] != kIgnoredTarget) {
      of = value_loss_of(values[t], row_of<float>(tokens, 0)[t], row_of<float>(tokens, 2)[t],
                         row_of<float>(tokens, 3)[t], clip);
    }
    total += of.loss;
    store(row_of<T>(gradient, t), Lanes{} + static_cast<float>(scale * of.slope), First{1});
  }
  return total;
}

}  // namespace

void CpuOperators::entropy_sums(Matrix logits, std::int64_t valid, Matrix row_max, Matrix entropies) {
  with_type("entropy_sums", logits.dtype, [&](auto type) {
    row_entropies<decltype(type)>(logits, valid, row_max.as<float>(), entropies.as<float>());
  });
}

Number CpuOperators::policy_loss(Matrix targets, Matrix sums, Matrix entropies, Matrix tokens,
                                 const PolicyLoss& loss, double scale, Matrix factors) {
  const auto* target = targets.as<std::int32_t>();
  double total = 0;
  for (std::int64_t t = 0; t < targets.cols; ++t) {
    PolicyFactors of{};
    if (target[t] != kIgnoredTarget) {
      const auto number = [&](const Matrix& from, std::int64_t row) {
        return double{row_of<float>(from, row)[t]};
      };
      of =
          policy_factors({number(sums, 0), number(sums, 1), loss.entropy_coef == 0 ? 0 : number(entropies, 0),
                          number(tokens, 0), number(tokens, 1), number(tokens, 2), number(tokens, 3)},
                         loss, scale);
    }
    total += of.loss;
    row_of<float>(factors, 0)[t] = of.target;
    row_of<float>(factors, 1)[t] = of.product;
    row_of<float>(factors, 2)[t] = of.constant;
  }
  return total;
}

void CpuOperators::policy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                   Matrix targets, Matrix row_max, Matrix factors) {
  with_type("policy_gradient", logits.dtype, [&](auto type) {
    policy_gradient_in_place<decltype(type)>(logits, valid, first_token, targets.as<std::int32_t>(),
                                             row_max.as<float>(), factors);
  });
}

Number CpuOperators::value_loss(Matrix targets, Matrix values, Matrix tokens, double clip, double scale,
                                Matrix gradient) {
  double total = 0;
  with_type("value_loss", gradient.dtype, [&](auto type) {
    total = value_losses<decltype(type)>(targets.as<std::int32_t>(), values.as<float>(), tokens, clip, scale,
                                         gradient);
  });
  return total;
}

}  // namespace plumbline::cpu
