#include "bench/training/timed_operators.hpp"

#include <chrono>

namespace plumbline::training {
namespace {

/// Adds the time from its making to its end.
class Timer {
 public:
  Timer(std::map<std::string, OperatorTime>& times, const char* name) : time_(times[name]) {}
  ~Timer() {
    time_.seconds += {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
    ++time_.calls;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  OperatorTime& time_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void TimedOperators::gemm(const Gemm& gemm) {
  const Timer timer(times_, gemm.a_transposed   ? "gemm_weight_gradient"
                            : gemm.b_transposed ? "gemm_forward"
                                                : "gemm_input_gradient");
  inner_.gemm(gemm);
}

void TimedOperators::rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  const Timer timer(times_, "rmsnorm_forward");
  inner_.rmsnorm_forward(x, w, y, rstd, epsilon);
}

void TimedOperators::rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                                      Matrix dw) {
  const Timer timer(times_, "rmsnorm_backward");
  inner_.rmsnorm_backward(dy, x, w, rstd, residual, dx, dw);
}

void TimedOperators::layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                                       double epsilon) {
  const Timer timer(times_, "layernorm_forward");
  inner_.layernorm_forward(x, w, b, y, mean, rstd, epsilon);
}

void TimedOperators::layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                                        Matrix residual, Matrix dx, Matrix dw, Matrix db) {
  const Timer timer(times_, "layernorm_backward");
  inner_.layernorm_backward(dy, x, w, mean, rstd, residual, dx, dw, db);
}

void TimedOperators::rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  const Timer timer(times_, "rope");
  inner_.rope(x, cos, sin, head_dim, inverse);
}

void TimedOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                       Matrix lse, Matrix scratch) {
  const Timer timer(times_, "attention_forward");
  inner_.attention_forward(shape, q, k, v, out, lse, scratch);
}

void TimedOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                        Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                        Matrix scratch) {
  const Timer timer(times_, "attention_backward");
  inner_.attention_backward(shape, q, k, v, out, lse, dout, dq, dk, dv, scratch);
}

std::int64_t TimedOperators::attention_scratch(const AttentionShape& shape, DType type) const {
  return inner_.attention_scratch(shape, type);
}

void TimedOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  const Timer timer(times_, "swiglu_forward");
  inner_.swiglu_forward(gate_up, y);
}

void TimedOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  const Timer timer(times_, "swiglu_backward");
  inner_.swiglu_backward(dy, gate_up, dgate_up);
}

void TimedOperators::gelu_forward(Matrix x, Matrix y) {
  const Timer timer(times_, "gelu_forward");
  inner_.gelu_forward(x, y);
}

void TimedOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  const Timer timer(times_, "gelu_backward");
  inner_.gelu_backward(dy, x, dx);
}

void TimedOperators::add(Matrix a, Matrix b, Matrix bias, Matrix y) {
  const Timer timer(times_, "add");
  inner_.add(a, b, bias, y);
}

void TimedOperators::bias_backward(Matrix dy, Matrix dbias) {
  const Timer timer(times_, "bias_backward");
  inner_.bias_backward(dy, dbias);
}

void TimedOperators::embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) {
  const Timer timer(times_, "embedding_forward");
  inner_.embedding_forward(tokens, table, first_token, y);
}

void TimedOperators::embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) {
  const Timer timer(times_, "embedding_backward");
  inner_.embedding_backward(tokens, dy, first_token, dtable);
}

void TimedOperators::position_forward(Matrix x, Matrix table, std::int64_t seq) {
  const Timer timer(times_, "position_forward");
  inner_.position_forward(x, table, seq);
}

void TimedOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  const Timer timer(times_, "position_backward");
  inner_.position_backward(dy, dtable, seq);
}

void TimedOperators::cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  const Timer timer(times_, "cross_entropy_max");
  inner_.cross_entropy_max(logits, valid, row_max);
}

void TimedOperators::cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                        Matrix targets, Matrix row_max, Matrix sums) {
  const Timer timer(times_, "cross_entropy_sums");
  inner_.cross_entropy_sums(logits, valid, first_token, targets, row_max, sums);
}

double TimedOperators::cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                              Matrix targets, Matrix row_max, Matrix sums, double scale) {
  const Timer timer(times_, "cross_entropy_gradient");
  return inner_.cross_entropy_gradient(logits, valid, first_token, targets, row_max, sums, scale);
}

void TimedOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                       std::int64_t first_token, Matrix targets, double temperature,
                                       Matrix row_max, Matrix sums) {
  const Timer timer(times_, "distillation_sums");
  inner_.distillation_sums(student, teacher, valid, first_token, targets, temperature, row_max, sums);
}

void TimedOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                             const Distillation& loss, Matrix row_max, Matrix sums,
                                             Matrix divergence) {
  const Timer timer(times_, "distillation_divergence");
  inner_.distillation_divergence(student, teacher, valid, loss, row_max, sums, divergence);
}

double TimedOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                             std::int64_t first_token, Matrix targets,
                                             const Distillation& loss, Matrix row_max, Matrix sums,
                                             Matrix divergence, double scale) {
  const Timer timer(times_, "distillation_gradient");
  return inner_.distillation_gradient(student, teacher, valid, first_token, targets, loss, row_max, sums,
                                      divergence, scale);
}

void TimedOperators::softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  const Timer timer(times_, "softmax");
  inner_.softmax(x, valid, logarithm, y);
}

double TimedOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                        Matrix terms) {
  const Timer timer(times_, "divergence_terms");
  return inner_.divergence_terms(p, log_s, valid, targets, terms);
}

void TimedOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                          double factor, Matrix dx) {
  const Timer timer(times_, "log_softmax_backward");
  inner_.log_softmax_backward(dy, log_s, valid, targets, factor, dx);
}

void TimedOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                          const AdamStep& step) {
  const Timer timer(times_, "adam");
  inner_.adam(parameter, gradient, master, moment1, moment2, step);
}

void TimedOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, double learning_rate,
                         double gradient_scale) {
  const Timer timer(times_, "sgd");
  inner_.sgd(parameter, gradient, master, learning_rate, gradient_scale);
}

double TimedOperators::squared_norm(Matrix x) {
  const Timer timer(times_, "squared_norm");
  return inner_.squared_norm(x);
}

void TimedOperators::fill(Matrix x, double value) {
  const Timer timer(times_, "fill");
  inner_.fill(x, value);
}

void TimedOperators::copy(Matrix from, Matrix to) {
  const Timer timer(times_, "copy");
  inner_.copy(from, to);
}

void TimedOperators::scale(Matrix x, double factor) {
  const Timer timer(times_, "scale");
  inner_.scale(x, factor);
}

void TimedOperators::upload(const void* host, Matrix x) {
  const Timer timer(times_, "upload");
  inner_.upload(host, x);
}

void TimedOperators::download(Matrix x, void* host) {
  const Timer timer(times_, "download");
  inner_.download(x, host);
}

void TimedOperators::synchronize() {
  const Timer timer(times_, "synchronize");
  inner_.synchronize();
}

}  // namespace plumbline::training
