// The class behind make_cpu_operators(); its members are defined one operator family per file.
#pragma once

#include <array>
#include <vector>

#include "kernels/cpu/matmul.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cpu {

class CpuOperators final : public Operators {
 public:
  CpuOperators();

  void gemm(const Gemm& gemm) override;

  void rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) override;
  void rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                        Matrix dw) override;
  void layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                         double epsilon) override;
  void layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual, Matrix dx,
                          Matrix dw, Matrix db) override;

  void rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) override;

  void attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                         Matrix scratch) override;
  void attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                          Matrix dout, Matrix dq, Matrix dk, Matrix dv, Matrix scratch) override;
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

  void swiglu_forward(Matrix gate_up, Matrix y) override;
  void swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) override;
  void gelu_forward(Matrix x, Matrix y) override;
  void gelu_backward(Matrix dy, Matrix x, Matrix dx) override;

  void add(Matrix a, Matrix b, Matrix bias, Matrix y) override;
  void bias_backward(Matrix dy, Matrix dbias) override;

  void embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) override;
  void embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) override;
  void position_forward(Matrix x, Matrix table, std::int64_t seq) override;
  void position_backward(Matrix dy, Matrix dtable, std::int64_t seq) override;

  void cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) override;
  void cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token, Matrix targets,
                          Matrix row_max, Matrix sums) override;
  double cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token, Matrix targets,
                                Matrix row_max, Matrix sums, double scale) override;
  void distillation_sums(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t first_token,
                         Matrix targets, double temperature, Matrix row_max, Matrix sums) override;
  void distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid, const Distillation& loss,
                               Matrix row_max, Matrix sums, Matrix divergence) override;
  double distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t first_token,
                               Matrix targets, const Distillation& loss, Matrix row_max, Matrix sums,
                               Matrix divergence, double scale) override;
  void softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) override;
  double divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets, Matrix terms) override;
  void log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets, double factor,
                            Matrix dx) override;

  void adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
            const AdamStep& step) override;
  void sgd(Matrix parameter, Matrix gradient, Matrix master, double learning_rate,
           double gradient_scale) override;
  double squared_norm(Matrix x) override;
  void fill(Matrix x, double value) override;
  void copy(Matrix from, Matrix to) override;
  void scale(Matrix x, double factor) override;
  void upload(const void* host, Matrix x) override;
  void download(Matrix x, void* host) override;
  void synchronize() override {}

 private:
  /// `count` zeroed fp32 numbers for sums over rows: one per column of a weight gradient.
  float* column_sums(std::int64_t count);
  /// to (1, n) of a gradient type += sums.
  static void add_column_sums(const float* sums, const Matrix& to);

  /// A bf16 product on a CPU whose oneDNN has none: fp32 copies of the operands, multiplied, rounded once.
  void widened_gemm(const Gemm& gemm);

  MatmulCache matmul_;
  std::vector<float> column_sums_;
  std::array<std::vector<float>, 4> widened_;  // A, B, C and bias of widened_gemm
};

}  // namespace plumbline::cpu
