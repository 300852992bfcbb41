// The loss of distillation over a vocabulary split by columns, one block per row. Floors, in elements per
// logit of both models: sums 1, divergence 1, gradient 1 and the student's written.
#include <cmath>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr std::int64_t kStep = std::int64_t{kThreads} * kChunk;

/// Rows of the statistics, T apart each.
struct Statistics {
  const float* student_max;
  const float* teacher_max;
  const float* student_sum;
  const float* teacher_sum;
  const float* plain_sum;
  const float* at_target;
};

Statistics statistics_of(const Matrix& row_max, const Matrix& sums) {
  const auto* maxima = row_max.as<const float>();
  const auto* totals = sums.as<const float>();
  return {maxima,
          maxima + row_max.stride,
          totals,
          totals + sums.stride,
          totals + 2 * sums.stride,
          totals + 3 * sums.stride};
}

/// Constants that turn the outputs of one token into logarithms of probabilities.
struct Token {
  __device__ Token(const Statistics& of, std::int64_t row, float inverse_)
      : inverse(inverse_),
        student_max(of.student_max[row]),
        teacher_max(of.teacher_max[row]),
        student_log(logf(of.student_sum[row])),
        teacher_log(logf(of.teacher_sum[row])) {}
  __device__ float log_s(float z) const { return (z - student_max) * inverse - student_log; }
  __device__ float log_p(float z) const { return (z - teacher_max) * inverse - teacher_log; }
  float inverse;
  float student_max, teacher_max;
  float student_log, teacher_log;
};

template <class S, class P>
__global__ void __launch_bounds__(kThreads)
    distilled_sums_kernel(View<const S> student, View<const P> teacher, std::int64_t rows, std::int64_t valid,
                          std::int64_t first_token, const std::int32_t* targets, float inverse,
                          const float* student_max, const float* teacher_max, float* sums,
                          std::int64_t stride, bool student_aligned, bool teacher_aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const S* z = student.row(row);
    const P* zt = teacher.row(row);
    const float top = student_max[row];
    const float teacher_top = teacher_max[row];
    Two tempered{0, 0};
    float plain = 0;
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < valid; col += kStep) {
      float of_student[kChunk];
      float of_teacher[kChunk];
      const Part part = part_at(col, valid, student_aligned);
      load(z + col, part, of_student);
      load(zt + col, part_at(col, valid, teacher_aligned), of_teacher);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i < part.count) {
          tempered.a += expf((of_student[i] - top) * inverse);
          tempered.b += expf((of_teacher[i] - teacher_top) * inverse);
          plain += expf(of_student[i] - top);
        }
      }
    }
    tempered = block_reduce(tempered, Sum());
    plain = block_reduce(plain, Sum());
    if (thread_x() == 0) {
      sums[row] = tempered.a;
      sums[stride + row] = tempered.b;
      sums[2 * stride + row] = plain;
      const std::int64_t column = targets[row] - first_token;  // an ignored target is nobody's
      sums[3 * stride + row] = column >= 0 && column < valid ? to_float(z[column]) - top : 0.0F;
    }
  }
}

template <class S, class P>
__global__ void __launch_bounds__(kThreads)
    divergence_kernel(View<const S> student, View<const P> teacher, std::int64_t rows, std::int64_t valid,
                      float inverse, bool reverse, Statistics statistics, float* divergence,
                      bool student_aligned, bool teacher_aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const S* z = student.row(row);
    const P* zt = teacher.row(row);
    const Token token(statistics, row, inverse);
    float total = 0;
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < valid; col += kStep) {
      float of_student[kChunk];
      float of_teacher[kChunk];
      const Part part = part_at(col, valid, student_aligned);
      load(z + col, part, of_student);
      load(zt + col, part_at(col, valid, teacher_aligned), of_teacher);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i < part.count) {
          const float log_s = token.log_s(of_student[i]);
          const float log_p = token.log_p(of_teacher[i]);
          total += reverse ? expf(log_s) * (log_s - log_p) : expf(log_p) * (log_p - log_s);
        }
      }
    }
    total = block_reduce(total, Sum());
    if (thread_x() == 0) divergence[row] = total;
  }
}

struct GradientFactors {
  float inverse;  // 1/τ
  float kl;
  float lm;
  bool reverse;
};

template <class S, class P>
__global__ void __launch_bounds__(kThreads)
    distilled_gradient_kernel(View<S> student, View<const P> teacher, std::int64_t rows, std::int64_t cols,
                              std::int64_t valid, std::int64_t first_token, const std::int32_t* targets,
                              GradientFactors factors, Statistics statistics, const float* divergence,
                              bool student_aligned, bool teacher_aligned) {
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    S* z = student.row(row);
    const P* zt = teacher.row(row);
    const bool ignored = targets[row] == kIgnoredTarget;
    const std::int64_t column = targets[row] - first_token;
    const Token token(statistics, row, factors.inverse);
    const float kl = divergence[row];
    const float softmax_factor = factors.lm / statistics.plain_sum[row];
    for (std::int64_t col = thread_x() * std::int64_t{kChunk}; col < cols; col += kStep) {
      float of_student[kChunk];
      float of_teacher[kChunk];
      const Part part = part_at(col, cols, student_aligned);
      load(z + col, part, of_student);
      load(zt + col, part_at(col, cols, teacher_aligned), of_teacher);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float log_s = token.log_s(of_student[i]);
        const float log_p = token.log_p(of_teacher[i]);
        float gradient =
            factors.kl * (factors.reverse ? expf(log_s) * (log_s - log_p - kl) : expf(log_s) - expf(log_p));
        if (factors.lm != 0) {
          gradient += softmax_factor * expf(of_student[i] - token.student_max) -
                      (col + i == column ? factors.lm : 0.0F);
        }
        of_student[i] = ignored || col + i >= valid ? 0.0F : gradient;
      }
      store(z + col, part, of_student);
    }
  }
}

/// *loss = Σ (1-λ)·KL + λ·CE over the rows that are not ignored. One block.
__global__ void __launch_bounds__(kThreads)
    distilled_loss_kernel(const std::int32_t* targets, Statistics statistics, const float* divergence,
                          std::int64_t rows, double lm_weight, double* loss) {
  double total = 0;
  for (std::int64_t row = thread_x(); row < rows; row += kThreads) {
    if (targets[row] == kIgnoredTarget) continue;
    const double cross_entropy =
        log(static_cast<double>(statistics.plain_sum[row])) - statistics.at_target[row];
    total += (1 - lm_weight) * divergence[row] + lm_weight * cross_entropy;
  }
  total = block_reduce(total, Sum());
  if (thread_x() == 0) *loss = total;
}

/// f(S{}, P{}) for the types of student and teacher.
template <class F>
void with_elements(const Matrix& student, const Matrix& teacher, const F& f) {
  with_element(student.dtype, [&](auto s) { with_element(teacher.dtype, [&](auto p) { f(s, p); }); });
}

}  // namespace

void distillation_sums(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                       std::int64_t first_token, Matrix targets, double temperature, Matrix row_max,
                       Matrix sums) {
  if (student.rows == 0) return;
  const Statistics statistics = statistics_of(row_max, sums);
  with_elements(student, teacher, [&](auto s, auto p) {
    using S = decltype(s);
    using P = decltype(p);
    launch(queue, {.x = blocks_for(queue, student.rows, 1), .threads = kThreads}, distilled_sums_kernel<S, P>,
           View<const S>(student), View<const P>(teacher), student.rows, valid, first_token,
           targets.as<const std::int32_t>(), static_cast<float>(1 / temperature), statistics.student_max,
           statistics.teacher_max, sums.as<float>(), sums.stride, all_aligned(student), all_aligned(teacher));
  });
}

void distillation_divergence(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                             const Distillation& loss, Matrix row_max, Matrix sums, Matrix divergence) {
  if (student.rows == 0) return;
  with_elements(student, teacher, [&](auto s, auto p) {
    using S = decltype(s);
    using P = decltype(p);
    launch(queue, {.x = blocks_for(queue, student.rows, 1), .threads = kThreads}, divergence_kernel<S, P>,
           View<const S>(student), View<const P>(teacher), student.rows, valid,
           static_cast<float>(1 / loss.temperature), loss.reverse, statistics_of(row_max, sums),
           divergence.as<float>(), all_aligned(student), all_aligned(teacher));
  });
}

void distillation_gradient(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                           std::int64_t first_token, Matrix targets, const Distillation& loss, Matrix row_max,
                           Matrix sums, Matrix divergence, double scale, double* total) {
  const auto* ids = targets.as<const std::int32_t>();
  const Statistics statistics = statistics_of(row_max, sums);
  launch(queue, {.x = 1, .threads = kThreads}, distilled_loss_kernel, ids, statistics,
         divergence.as<const float>(), student.rows, loss.lm_weight, total);
  if (student.rows == 0) return;
  const GradientFactors factors{static_cast<float>(1 / loss.temperature),
                                static_cast<float>(scale * (1 - loss.lm_weight) / loss.temperature),
                                static_cast<float>(scale * loss.lm_weight), loss.reverse};
  with_elements(student, teacher, [&](auto s, auto p) {
    using S = decltype(s);
    using P = decltype(p);
    launch(queue, {.x = blocks_for(queue, student.rows, 1), .threads = kThreads},
           distilled_gradient_kernel<S, P>, View<S>(student), View<const P>(teacher), student.rows,
           student.cols, valid, first_token, ids, factors, statistics, divergence.as<const float>(),
           all_aligned(student), all_aligned(teacher));
  });
}

}  // namespace plumbline::cuda
