// The members of CudaOperators for the ends of a model and the end of a step: embeddings, loss, optimizer.
#include "kernels/checks/arguments.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "kernels/update_factors.hpp"

namespace plumbline::cuda {
void CudaOperators::embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) {
  cuda::embedding_forward(queue_, tokens, table, first_token, y);
}

void CudaOperators::embedding_add(Matrix tokens, Matrix table, Matrix x) {
  cuda::embedding_add(queue_, tokens, table, x);
}

void CudaOperators::row_products(Matrix a, Matrix b, std::int64_t first, std::int64_t columns, Matrix sums) {
  cuda::row_products(queue_, a, b, first, columns, sums);
}

void CudaOperators::scale_columns(Matrix x, Matrix squares) {
  cuda::scale_columns(queue_, x, squares);
}

void CudaOperators::remove_row_parts(Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                                     Matrix sums) {
  cuda::remove_row_parts(queue_, g, w, first, columns, sums);
}

void CudaOperators::embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) {
  require(dy.rows < std::int64_t{1} << 31, "embedding_backward", "fewer than 2^31 tokens", {{"dy", dy}});
  cuda::embedding_backward(queue_, tokens, dy, first_token, dtable,
                           partials_.at_least<std::int32_t>(dy.rows));
}

void CudaOperators::position_forward(Matrix x, Matrix table, std::int64_t seq) {
  cuda::position_forward(queue_, x, table, seq);
}

void CudaOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  cuda::position_backward(queue_, dy, dtable, seq);
}

void CudaOperators::cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  cuda::cross_entropy_max(queue_, logits, valid, row_max);
}

void CudaOperators::greedy_choice(Matrix logits, std::int64_t valid, Matrix choice) {
  cuda::greedy_choice(queue_, logits, valid, choice);
}

void CudaOperators::cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                       Matrix targets, Matrix row_max, Matrix sums) {
  cuda::cross_entropy_sums(queue_, logits, valid, first_token, targets, row_max, sums);
}

Number CudaOperators::cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                             Matrix targets, Matrix row_max, Matrix sums, double scale) {
  auto* loss = partials_.at_least<double>(1);
  cuda::cross_entropy_gradient(queue_, logits, valid, first_token, targets, row_max, sums,
                               static_cast<float>(scale), loss);
  return numbers_.fetch(loss);
}

void CudaOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                      std::int64_t first_token, Matrix targets, double temperature,
                                      Matrix row_max, Matrix sums) {
  cuda::distillation_sums(queue_, student, teacher, valid, first_token, targets, temperature, row_max, sums);
}

void CudaOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                            const Distillation& loss, Matrix row_max, Matrix sums,
                                            Matrix divergence) {
  cuda::distillation_divergence(queue_, student, teacher, valid, loss, row_max, sums, divergence);
}

void CudaOperators::entropy_sums(Matrix logits, std::int64_t valid, Matrix row_max, Matrix entropies) {
  cuda::entropy_sums(queue_, logits, valid, row_max, entropies);
}

Number CudaOperators::policy_loss(Matrix targets, Matrix sums, Matrix entropies, Matrix tokens,
                                  const PolicyLoss& loss, double scale, Matrix factors) {
  auto* total = partials_.at_least<double>(1);
  cuda::policy_loss(queue_, targets, sums, entropies, tokens, loss, scale, factors, total);
  return numbers_.fetch(total);
}

void CudaOperators::policy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                    Matrix targets, Matrix row_max, Matrix factors) {
  cuda::policy_gradient(queue_, logits, valid, first_token, targets, row_max, factors);
}

Number CudaOperators::value_loss(Matrix targets, Matrix values, Matrix tokens, double clip, double scale,
                                 Matrix gradient) {
  auto* total = partials_.at_least<double>(1);
  cuda::value_loss(queue_, targets, values, tokens, clip, scale, gradient, total);
  return numbers_.fetch(total);
}

Number CudaOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                            std::int64_t first_token, Matrix targets,
                                            const Distillation& loss, Matrix row_max, Matrix sums,
                                            Matrix divergence, double scale) {
  auto* total = partials_.at_least<double>(1);
  cuda::distillation_gradient(queue_, student, teacher, valid, first_token, targets, loss, row_max, sums,
                              divergence, scale, total);
  return numbers_.fetch(total);
}

void CudaOperators::softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  cuda::softmax(queue_, x, valid, logarithm, y);
}

Number CudaOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                       Matrix terms) {
  auto* sums = partials_.at_least<double>(p.rows + 1);
  cuda::divergence_terms(queue_, p, log_s, valid, targets, terms, sums, sums + p.rows);
  return numbers_.fetch(sums + p.rows);
}

void CudaOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                         double factor, Matrix dx) {
  cuda::log_softmax_backward(queue_, dy, log_s, valid, targets, static_cast<float>(factor), dx);
}

void CudaOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                         const AdamStep& step) {
  cuda::adam(queue_, parameter, gradient, master, moment1, moment2, adam_factors(step));
}

void CudaOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, const DescentStep& step) {
  cuda::sgd(queue_, parameter, gradient, master,
            static_cast<float>(1 - step.learning_rate * step.weight_decay),
            static_cast<float>(step.learning_rate * step.gradient_scale));
}

void CudaOperators::lion(Matrix parameter, Matrix gradient, Matrix master, Matrix momentum,
                         const LionStep& step) {
  cuda::lion(queue_, parameter, gradient, master, momentum, lion_factors(step));
}

void CudaOperators::momentum(Matrix gradient, Matrix momentum, Matrix update, const MomentumStep& step) {
  cuda::momentum(queue_, gradient, momentum, update, momentum_factors(step));
}

void CudaOperators::normalize(Matrix x, double epsilon) {
  if (x.empty()) return;
  const std::int64_t count = norm_sums(queue_, x);
  auto* sums = partials_.at_least<double>(count + 1);
  cuda::squared_norm(queue_, x, sums, count, sums + count);
  divide_by_root(queue_, x, sums + count, static_cast<float>(epsilon));
}

void CudaOperators::weighted_sum(Matrix a, double of_a, Matrix b, double of_b, Matrix y) {
  cuda::weighted_sum(queue_, a, static_cast<float>(of_a), b, static_cast<float>(of_b), y);
}

Number CudaOperators::squared_norm(Matrix x) {
  if (x.empty()) return 0;
  const std::int64_t count = norm_sums(queue_, x);
  auto* sums = partials_.at_least<double>(count + 1);
  cuda::squared_norm(queue_, x, sums, count, sums + count);
  return numbers_.fetch(sums + count);
}

void CudaOperators::fill(Matrix x, double value) {
  cuda::fill(queue_, x, value);
}

void CudaOperators::scale(Matrix x, double factor) {
  cuda::scale(queue_, x, static_cast<float>(factor));
}

}  // namespace plumbline::cuda
