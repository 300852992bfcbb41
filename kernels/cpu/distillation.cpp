// The loss of distillation over a vocabulary split by columns, in three steps.
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cpu {
namespace {

/// Constants that turn the outputs of one token into logarithms of probabilities.
struct Token {
  Token(const Matrix& row_max, const Matrix& sums, double temperature, std::int64_t t)
      : inverse(static_cast<float>(1 / temperature)),
        student_max(row_of<float>(row_max, 0)[t]),
        teacher_max(row_of<float>(row_max, 1)[t]),
        student_log(std::log(row_of<float>(sums, 0)[t])),
        teacher_log(std::log(row_of<float>(sums, 1)[t])) {}
  float inverse;
  float student_max, teacher_max;
  float student_log, teacher_log;
};

/// log s and log p of sixteen columns.
PLUMBLINE_INLINE Lanes student_log(const Token& token, Lanes z) {
  return (z - token.student_max) * token.inverse - token.student_log;
}
PLUMBLINE_INLINE Lanes teacher_log(const Token& token, Lanes z) {
  return (z - token.teacher_max) * token.inverse - token.teacher_log;
}

template <class S, class P>
PLUMBLINE_MULTIVERSION void row_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                     std::int64_t first_token, const std::int32_t* targets, float inverse,
                                     Matrix row_max, Matrix sums) {
  for (std::int64_t t = 0; t < student.rows; ++t) {
    const S* z = row_of<S>(student, t);
    const P* zt = row_of<P>(teacher, t);
    const float student_max = row_of<float>(row_max, 0)[t];
    const float teacher_max = row_of<float>(row_max, 1)[t];
    LaneSum student_sum;
    LaneSum teacher_sum;
    LaneSum plain;
    for_lanes(valid, [&] PLUMBLINE_LANES {
      const Lanes above = load(z + i, part) - student_max;
      student_sum += keep(exp(above * inverse), Lanes{}, part);
      teacher_sum += keep(exp((load(zt + i, part) - teacher_max) * inverse), Lanes{}, part);
      plain += keep(exp(above), Lanes{}, part);
    });
    row_of<float>(sums, 0)[t] = sum(student_sum);
    row_of<float>(sums, 1)[t] = sum(teacher_sum);
    row_of<float>(sums, 2)[t] = sum(plain);
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;  // an ignored target is nobody's
    row_of<float>(sums, 3)[t] = mine ? load(z + column, First{1})[0] - student_max : 0.0F;
  }
}

template <class S, class P>
PLUMBLINE_MULTIVERSION void row_divergences(Matrix student, Matrix teacher, std::int64_t valid,
                                            const Distillation& loss, Matrix row_max, Matrix sums,
                                            float* divergence) {
  for (std::int64_t t = 0; t < student.rows; ++t) {
    const S* z = row_of<S>(student, t);
    const P* zt = row_of<P>(teacher, t);
    const Token token(row_max, sums, loss.temperature, t);
    LaneSum total;
    for_lanes(valid, [&] PLUMBLINE_LANES {
      const Lanes log_s = student_log(token, load(z + i, part));
      const Lanes log_p = teacher_log(token, load(zt + i, part));
      const Lanes term = loss.reverse ? exp(log_s) * (log_s - log_p) : exp(log_p) * (log_p - log_s);
      total += keep(term, Lanes{}, part);
    });
    divergence[t] = sum(total);
  }
}

template <class S, class P>
PLUMBLINE_MULTIVERSION void gradient_in_place(Matrix student, Matrix teacher, std::int64_t valid,
                                              std::int64_t first_token, const std::int32_t* targets,
                                              const Distillation& loss, Matrix row_max, Matrix sums,
                                              const float* divergence, double scale) {
  const auto kl_factor = static_cast<float>(scale * (1 - loss.lm_weight) / loss.temperature);
  const auto lm_factor = static_cast<float>(scale * loss.lm_weight);
  for (std::int64_t t = 0; t < student.rows; ++t) {
    S* z = row_of<S>(student, t);
    const P* zt = row_of<P>(teacher, t);
    if (targets[t] == kIgnoredTarget) {
      std::memset(z, 0, static_cast<std::size_t>(student.cols) * sizeof(S));
      continue;
    }
    const Token token(row_max, sums, loss.temperature, t);
    const float kl = divergence[t];
    const float softmax_factor = lm_factor / row_of<float>(sums, 2)[t];
    const auto gradient = [&](auto i, auto part) __attribute__((always_inline)) {
      const Lanes logit = load(z + i, part);
      const Lanes log_s = student_log(token, logit);
      const Lanes log_p = teacher_log(token, load(zt + i, part));
      Lanes g = kl_factor * (loss.reverse ? exp(log_s) * (log_s - log_p - kl) : exp(log_s) - exp(log_p));
      if (lm_factor != 0) g += softmax_factor * exp(logit - token.student_max);
      return g;
    };
    const std::int64_t column = targets[t] - first_token;
    const bool mine = column >= 0 && column < valid;
    // The target's entry is computed apart, so that it is rounded once.
    const Lanes at_target = mine ? gradient(column, First{1}) - lm_factor : Lanes{};
    for_lanes(valid, [&] PLUMBLINE_LANES { store(z + i, gradient(i, part), part); });
    if (mine) store(z + column, at_target, First{1});
    std::memset(z + valid, 0, static_cast<std::size_t>(student.cols - valid) * sizeof(S));
  }
}

}  // namespace

void CpuOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                     std::int64_t first_token, Matrix targets, double temperature,
                                     Matrix row_max, Matrix sums) {
  with_types("distillation_sums", student.dtype, teacher.dtype, [&](auto s, auto p) {
    row_sums<decltype(s), decltype(p)>(student, teacher, valid, first_token, targets.as<std::int32_t>(),
                                       static_cast<float>(1 / temperature), row_max, sums);
  });
}

void CpuOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                           const Distillation& loss, Matrix row_max, Matrix sums,
                                           Matrix divergence) {
  with_types("distillation_divergence", student.dtype, teacher.dtype, [&](auto s, auto p) {
    row_divergences<decltype(s), decltype(p)>(student, teacher, valid, loss, row_max, sums,
                                              divergence.as<float>());
  });
}

Number CpuOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                           std::int64_t first_token, Matrix targets, const Distillation& loss,
                                           Matrix row_max, Matrix sums, Matrix divergence, double scale) {
  const auto* target = targets.as<std::int32_t>();
  double total = 0;
  for (std::int64_t t = 0; t < student.rows; ++t) {
    if (target[t] == kIgnoredTarget) continue;
    const double cross_entropy =
        std::log(static_cast<double>(row_of<float>(sums, 2)[t])) - row_of<float>(sums, 3)[t];
    total += (1 - loss.lm_weight) * divergence.as<float>()[t] + loss.lm_weight * cross_entropy;
  }
  with_types("distillation_gradient", student.dtype, teacher.dtype, [&](auto s, auto p) {
    gradient_in_place<decltype(s), decltype(p)>(student, teacher, valid, first_token, target, loss, row_max,
                                                sums, divergence.as<float>(), scale);
  });
  return total;
}

}  // namespace plumbline::cpu
