// The members of CudaOperators for the ends of a model and the end of a step: embeddings, loss, optimizer.
#include <cmath>

#include "kernels/checks.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

constexpr const char* kLossShapes =
    "logits (T,n) of a floating point type with valid <= n, targets (1,T) int32, row_max (1,T), sums (2,T) "
    "fp32";
constexpr const char* kDistillationShapes =
    "student and teacher (T,n) with valid <= n, temperature > 0, targets (1,T) int32, row_max (2,T), sums "
    "(4,T), divergence (1,T) fp32";
constexpr const char* kEagerShapes = "matrices (T,n) fp32 with valid <= n, targets (1,T) int32";
constexpr const char* kStateShapes =
    "equal element counts without gaps, master and moments fp32, master empty for fp32 parameters, step >= 1";

bool is_distilled(const Matrix& student, const Matrix& teacher, std::int64_t valid, double temperature,
                  const Matrix& row_max, const Matrix& sums) {
  return is_logits(student, valid) && is_storage(teacher) && same_shape(student, teacher) &&
         temperature > 0 && has_shape(row_max, 2, student.rows, DType::fp32) &&
         has_shape(sums, 4, student.rows, DType::fp32);
}

bool are_eager(const Matrix& a, const Matrix& b, const Matrix& c, std::int64_t valid) {
  return a.dtype == DType::fp32 && is_logits(a, valid) && alike(a, b) && alike(a, c);
}

/// True if `x` has the parameter's number of elements, without gaps.
bool matches(const Matrix& x, const Matrix& parameter) {
  return x.elements() == parameter.elements() && x.contiguous();
}
bool is_state(const Matrix& x, const Matrix& parameter) {
  return matches(x, parameter) && x.dtype == DType::fp32;
}
bool is_updatable(const Matrix& parameter, const Matrix& gradient, const Matrix& master) {
  return is_storage(parameter) && is_storage(gradient) && parameter.contiguous() &&
         matches(gradient, parameter) &&
         (parameter.dtype == DType::fp32 ? master.data == nullptr : is_state(master, parameter));
}

}  // namespace

void CudaOperators::embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) {
  require(is_storage(y) && has_shape(tokens, 1, y.rows, DType::int32) && table.cols == y.cols &&
              table.dtype == y.dtype,
          "embedding_forward", "tokens (1,T) int32, table (rows,h), y (T,h) of one type",
          {{"tokens", tokens}, {"table", table}, {"y", y}});
  cuda::embedding_forward(queue_, tokens, table, first_token, y);
}

void CudaOperators::embedding_add(Matrix tokens, Matrix table, Matrix x) {
  require_embedding_add(tokens, table, x);
  cuda::embedding_add(queue_, tokens, table, x);
}

void CudaOperators::row_products(Matrix a, Matrix b, std::int64_t first, std::int64_t columns, Matrix sums) {
  require_row_products("row_products", a, b, first, columns, sums);
  cuda::row_products(queue_, a, b, first, columns, sums);
}

void CudaOperators::scale_columns(Matrix x, Matrix squares) {
  require_scale_columns(x, squares);
  cuda::scale_columns(queue_, x, squares);
}

void CudaOperators::remove_row_parts(Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                                     Matrix sums) {
  require_row_products("remove_row_parts", g, w, first, columns, sums);
  cuda::remove_row_parts(queue_, g, w, first, columns, sums);
}

void CudaOperators::embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) {
  require(is_storage(dy) && is_storage(dtable) && has_shape(tokens, 1, dy.rows, DType::int32) &&
              dtable.cols == dy.cols && dy.rows < std::int64_t{1} << 31,
          "embedding_backward", "tokens (1,T) int32, dy (T,h), dtable (rows,h)",
          {{"tokens", tokens}, {"dy", dy}, {"dtable", dtable}});
  cuda::embedding_backward(queue_, tokens, dy, first_token, dtable,
                           partials_.at_least<std::int32_t>(dy.rows));
}

void CudaOperators::position_forward(Matrix x, Matrix table, std::int64_t seq) {
  require(is_storage(x) && seq > 0 && seq <= table.rows && table.cols == x.cols && table.dtype == x.dtype,
          "position_forward", "x (T,h), table (positions >= seq, h) of one type",
          {{"x", x}, {"table", table}});
  cuda::position_forward(queue_, x, table, seq);
}

void CudaOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  require(is_storage(dy) && is_storage(dtable) && seq > 0 && seq <= dtable.rows && dtable.cols == dy.cols,
          "position_backward", "dy (T,h), dtable (positions >= seq, h)", {{"dy", dy}, {"dtable", dtable}});
  cuda::position_backward(queue_, dy, dtable, seq);
}

void CudaOperators::cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32), "cross_entropy_max", kLossShapes,
          {{"logits", logits}, {"row_max", row_max}});
  cuda::cross_entropy_max(queue_, logits, valid, row_max);
}

void CudaOperators::cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                       Matrix targets, Matrix row_max, Matrix sums) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) &&
              is_row(targets, logits, DType::int32) && has_shape(sums, 2, logits.rows, DType::fp32),
          "cross_entropy_sums", kLossShapes,
          {{"logits", logits}, {"targets", targets}, {"row_max", row_max}, {"sums", sums}});
  cuda::cross_entropy_sums(queue_, logits, valid, first_token, targets, row_max, sums);
}

Number CudaOperators::cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                             Matrix targets, Matrix row_max, Matrix sums, double scale) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) &&
              is_row(targets, logits, DType::int32) && has_shape(sums, 2, logits.rows, DType::fp32),
          "cross_entropy_gradient", kLossShapes,
          {{"logits", logits}, {"targets", targets}, {"row_max", row_max}, {"sums", sums}});
  auto* loss = partials_.at_least<double>(1);
  cuda::cross_entropy_gradient(queue_, logits, valid, first_token, targets, row_max, sums,
                               static_cast<float>(scale), loss);
  return numbers_.fetch(loss);
}

void CudaOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                      std::int64_t first_token, Matrix targets, double temperature,
                                      Matrix row_max, Matrix sums) {
  require(is_distilled(student, teacher, valid, temperature, row_max, sums) &&
              is_row(targets, student, DType::int32),
          "distillation_sums", kDistillationShapes,
          {{"student", student},
           {"teacher", teacher},
           {"targets", targets},
           {"row_max", row_max},
           {"sums", sums}});
  cuda::distillation_sums(queue_, student, teacher, valid, first_token, targets, temperature, row_max, sums);
}

void CudaOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                            const Distillation& loss, Matrix row_max, Matrix sums,
                                            Matrix divergence) {
  require(is_distilled(student, teacher, valid, loss.temperature, row_max, sums) &&
              is_row(divergence, student, DType::fp32),
          "distillation_divergence", kDistillationShapes,
          {{"student", student},
           {"teacher", teacher},
           {"row_max", row_max},
           {"sums", sums},
           {"divergence", divergence}});
  cuda::distillation_divergence(queue_, student, teacher, valid, loss, row_max, sums, divergence);
}

Number CudaOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                            std::int64_t first_token, Matrix targets,
                                            const Distillation& loss, Matrix row_max, Matrix sums,
                                            Matrix divergence, double scale) {
  require(is_distilled(student, teacher, valid, loss.temperature, row_max, sums) &&
              is_row(targets, student, DType::int32) && is_row(divergence, student, DType::fp32),
          "distillation_gradient", kDistillationShapes,
          {{"student", student},
           {"teacher", teacher},
           {"targets", targets},
           {"row_max", row_max},
           {"sums", sums},
           {"divergence", divergence}});
  auto* total = partials_.at_least<double>(1);
  cuda::distillation_gradient(queue_, student, teacher, valid, first_token, targets, loss, row_max, sums,
                              divergence, scale, total);
  return numbers_.fetch(total);
}

void CudaOperators::softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  require(are_eager(x, y, y, valid), "softmax", kEagerShapes, {{"x", x}, {"y", y}});
  cuda::softmax(queue_, x, valid, logarithm, y);
}

Number CudaOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                       Matrix terms) {
  require(are_eager(p, log_s, terms, valid) && is_row(targets, p, DType::int32), "divergence_terms",
          kEagerShapes, {{"p", p}, {"log_s", log_s}, {"targets", targets}, {"terms", terms}});
  auto* sums = partials_.at_least<double>(p.rows + 1);
  cuda::divergence_terms(queue_, p, log_s, valid, targets, terms, sums, sums + p.rows);
  return numbers_.fetch(sums + p.rows);
}

void CudaOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                         double factor, Matrix dx) {
  require(are_eager(dy, log_s, dx, valid) && is_row(targets, dy, DType::int32), "log_softmax_backward",
          kEagerShapes, {{"dy", dy}, {"log_s", log_s}, {"targets", targets}, {"dx", dx}});
  cuda::log_softmax_backward(queue_, dy, log_s, valid, targets, static_cast<float>(factor), dx);
}

void CudaOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                         const AdamStep& step) {
  require(is_updatable(parameter, gradient, master) && is_state(moment1, parameter) &&
              is_state(moment2, parameter) && step.step >= 1,
          "adam", kStateShapes,
          {{"parameter", parameter},
           {"gradient", gradient},
           {"master", master},
           {"moment1", moment1},
           {"moment2", moment2}});
  const auto steps = static_cast<double>(step.step);
  const AdamFactors factors{
      static_cast<float>(step.beta1),
      static_cast<float>(1 - step.beta1),
      static_cast<float>(step.beta2),
      static_cast<float>(1 - step.beta2),
      static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, steps))),
      static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, steps))),
      static_cast<float>(step.epsilon),
      static_cast<float>(1 - step.learning_rate * step.weight_decay),
      static_cast<float>(step.gradient_scale),
  };
  cuda::adam(queue_, parameter, gradient, master, moment1, moment2, factors);
}

void CudaOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, double learning_rate,
                        double gradient_scale) {
  require(is_updatable(parameter, gradient, master), "sgd", kStateShapes,
          {{"parameter", parameter}, {"gradient", gradient}, {"master", master}});
  cuda::sgd(queue_, parameter, gradient, master, static_cast<float>(learning_rate * gradient_scale));
}

Number CudaOperators::squared_norm(Matrix x) {
  require(is_storage(x), "squared_norm", "a floating point type", {{"x", x}});
  if (x.empty()) return 0;
  const std::int64_t count = norm_sums(queue_, x);
  auto* sums = partials_.at_least<double>(count + 1);
  cuda::squared_norm(queue_, x, sums, count, sums + count);
  return numbers_.fetch(sums + count);
}

void CudaOperators::fill(Matrix x, double value) {
  require(is_storage(x) || x.dtype == DType::int32, "fill", "a floating point type or int32", {{"x", x}});
  cuda::fill(queue_, x, value);
}

void CudaOperators::scale(Matrix x, double factor) {
  require(is_storage(x), "scale", "a floating point type", {{"x", x}});
  cuda::scale(queue_, x, static_cast<float>(factor));
}

}  // namespace plumbline::cuda
