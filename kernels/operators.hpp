// The operators a training step is made of. One list, implemented by each backend folder (cpu/, cuda/,
// emulated/); the training code is written once over it.
//
// Conventions. Matrices are row-major; T = batch × sequence token rows, batch-major. "Storage type" is the
// type of the activations and weights, fp32, bf16 or fp16; sums inside an operator are always fp32.
// "Overwrites" and "accumulates into" are said for every output. Shapes or types that disagree throw Error
// naming the operator. Results are the same bit for bit on every call with the same inputs.
#pragma once

#include <cstdint>

#include "core/matrix.hpp"

namespace plumbline {

/// C = op(A)·op(B) [+ C] [+ bias], op(X) = X or Xᵀ. A and B have one storage type; C has it too, or fp32.
struct Gemm {
  Matrix a;  // (m, k), or (k, m) when a_transposed
  Matrix b;  // (k, n), or (n, k) when b_transposed
  Matrix c;  // (m, n)
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;  // C is added to instead of overwritten
  Matrix bias{};            // (1, n) of the storage type, or empty
};

/// Causal grouped-query attention of `batch` sequences. Query head i reads key/value head i / (heads /
/// kv_heads).
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
};

struct AdamStep {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // clipping factor, multiplied into the gradient
  std::int64_t step = 1;      // 1 for the first step: bias correction
};

/// The loss of distillation (Hinton et al. 2015, arXiv:1503.02531): of every token (1-λ)·KL + λ·CE, where KL
/// compares p = softmax(teacher/τ) and s = softmax(student/τ) and CE is the student's cross-entropy with its
/// target.
struct Distillation {
  double temperature = 1;  // τ
  bool reverse = false;    // KL = Σ s·(log s - log p) instead of Σ p·(log p - log s)
  double lm_weight = 0;    // λ
};

class Operators {
 public:
  virtual ~Operators() = default;

  virtual void gemm(const Gemm& gemm) = 0;

  /// y = x · w / rms(x), rms = sqrt(mean(x²) + epsilon) per row (Zhang & Sennrich 2019, arXiv:1910.07467).
  /// x, y (T, h); w (1, h); rstd (1, T) fp32 = 1/rms, kept for backward. Overwrites y, rstd.
  virtual void rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) = 0;
  /// dx = residual + (gradient of rmsnorm towards x). residual may be the same memory as dx, or empty (zero).
  /// dw (1, h) of the gradient type is accumulated into. Overwrites dx.
  virtual void rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                                Matrix dw) = 0;

  /// y = (x - mean)/std · w + b per row (Ba et al. 2016, arXiv:1607.06450). mean, rstd (1, T) fp32 are kept.
  virtual void layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                                 double epsilon) = 0;
  /// As rmsnorm_backward; dw and db are accumulated into.
  virtual void layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual,
                                  Matrix dx, Matrix dw, Matrix db) = 0;

  /// Rotates every head of x (T, heads·head_dim; columns may be a slice of a wider matrix) in place:
  /// (x1, x2) = the head's halves → (x1·cos - x2·sin, x2·cos + x1·sin) (Su et al. 2021, arXiv:2104.09864, in
  /// Hugging Face's half-split order). cos, sin (seq, head_dim/2) fp32, row = position = token row modulo
  /// seq. `inverse` rotates back: the gradient.
  virtual void rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) = 0;

  /// out = softmax(q·kᵀ/sqrt(head_dim), causal)·v without keeping the scores (Dao et al. 2022,
  /// arXiv:2205.14135). q, out (T, heads·head_dim), k, v (T, kv_heads·head_dim): columns may be slices. lse
  /// (batch·heads, seq) fp32 = log-sum-exp of each row of scores, kept for backward. Overwrites out, lse.
  /// scratch: contiguous fp32 of at least attention_scratch(shape, type) elements, contents irrelevant.
  virtual void attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                 Matrix lse, Matrix scratch) = 0;
  /// Overwrites dq, dk, dv (shapes of q, k, v).
  virtual void attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                  Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                  Matrix scratch) = 0;
  /// fp32 elements of scratch that attention (forward and backward) wants.
  virtual std::int64_t attention_scratch(const AttentionShape& shape, DType type) const = 0;

  /// y = silu(gate) · up. gate_up (T, 2F): gate in the first F columns, up in the last; y (T, F). Overwrites
  /// y.
  virtual void swiglu_forward(Matrix gate_up, Matrix y) = 0;
  /// Overwrites dgate_up (T, 2F).
  virtual void swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) = 0;
  /// y = 0.5·x·(1 + tanh(sqrt(2/π)(x + 0.044715·x³))) (Hendrycks & Gimpel, arXiv:1606.08415). Overwrites y.
  virtual void gelu_forward(Matrix x, Matrix y) = 0;
  /// Overwrites dx; dx may be dy.
  virtual void gelu_backward(Matrix dy, Matrix x, Matrix dx) = 0;

  /// y = a + b (T, h) [+ bias (1, h) on every row]; y may be a or b; bias may be empty. Overwrites y.
  virtual void add(Matrix a, Matrix b, Matrix bias, Matrix y) = 0;
  /// dbias (1, n) of the gradient type += column sums of dy (T, n).
  virtual void bias_backward(Matrix dy, Matrix dbias) = 0;

  /// y[t] = table[tokens[t] - first_token], or zeros for a token outside [first_token, first_token +
  /// table.rows). tokens (1, T) int32; table (rows, h); y (T, h). Overwrites y.
  virtual void embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) = 0;
  /// dtable (rows, h) of the gradient type += dy rows of the tokens it owns, in token order.
  virtual void embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) = 0;
  /// x[t] += table[t modulo seq]: learned positions. x (T, h), table (positions, h).
  virtual void position_forward(Matrix x, Matrix table, std::int64_t seq) = 0;
  /// dtable (positions, h) of the gradient type += dy rows.
  virtual void position_backward(Matrix dy, Matrix dtable, std::int64_t seq) = 0;

  /// Cross-entropy over a vocabulary cut by columns, in three steps with all-reduces in between (Megatron-LM,
  /// arXiv:1909.08053 §3). logits (T, n) of the storage type: this rank's columns, of which the first `valid`
  /// are real; targets (1, T) int32 global ids. Step 1: row_max (1, T) fp32 = maximum of each row's valid
  /// columns. Overwrites. [all-reduce MAX]
  virtual void cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) = 0;
  /// Step 2: sums (2, T) fp32: row 0 = Σ exp(logit - row_max), row 1 = logit - row_max of the target, 0 where
  /// another rank owns it. Overwrites. [all-reduce SUM]
  virtual void cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token, Matrix targets,
                                  Matrix row_max, Matrix sums) = 0;
  /// Step 3: logits become their gradient (softmax - onehot(target)) · scale, padding columns 0; returns the
  /// unscaled loss summed over rows, Σ log(sums[0]) - sums[1]. A target of -100 is ignored: no loss, no
  /// gradient.
  virtual double cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token,
                                        Matrix targets, Matrix row_max, Matrix sums, double scale) = 0;

  /// The loss of distillation over a vocabulary cut as in cross_entropy, in three steps with all-reduces in
  /// between. student, teacher (T, n): their types may differ; row_max (2, T) fp32: the maxima of both, by
  /// cross_entropy_max. Step 1: sums (4, T) fp32 = Σ exp((student - max)/τ), Σ exp((teacher - max)/τ),
  /// Σ exp(student - max), and the target's student - max, 0 where another rank owns it. Overwrites.
  /// [all-reduce SUM]
  virtual void distillation_sums(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t first_token,
                                 Matrix targets, double temperature, Matrix row_max, Matrix sums) = 0;
  /// Step 2: divergence (1, T) fp32 = this rank's columns' part of each token's KL. Overwrites. [all-reduce
  /// SUM]
  virtual void distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                       const Distillation& loss, Matrix row_max, Matrix sums,
                                       Matrix divergence) = 0;
  /// Step 3: student becomes the gradient of its loss · scale, padding columns 0; returns the unscaled loss
  /// summed over rows. A target of -100 is ignored: no loss, no gradient. The teacher is read only.
  virtual double distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                       std::int64_t first_token, Matrix targets, const Distillation& loss,
                                       Matrix row_max, Matrix sums, Matrix divergence, double scale) = 0;

  /// The same loss in the separate passes of eager code, all (T, n) fp32 and whole (not cut): y = softmax(x)
  /// or its logarithm over the first `valid` columns, 0 in the others. Overwrites y.
  virtual void softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) = 0;
  /// terms = p·(log p - log_s), 0 in rows whose target is -100. Overwrites terms; returns their sum.
  virtual double divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                  Matrix terms) = 0;
  /// dx = factor · (dy - exp(log_s)·Σ dy): back through a log-softmax; 0 in padding columns and in rows whose
  /// target is -100. Overwrites dx.
  virtual void log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                    double factor, Matrix dx) = 0;

  /// AdamW (Loshchilov & Hutter, arXiv:1711.05101). parameter and gradient of any type; master, moment1,
  /// moment2 fp32; master empty when the parameter is fp32 itself. All contiguous, equal element counts.
  /// Updates all but the gradient.
  virtual void adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                    const AdamStep& step) = 0;
  /// Plain gradient descent: parameter (and master where kept) -= learning_rate · gradient_scale · gradient.
  virtual void sgd(Matrix parameter, Matrix gradient, Matrix master, double learning_rate,
                   double gradient_scale) = 0;
  /// Σ x² in double.
  virtual double squared_norm(Matrix x) = 0;
  virtual void fill(Matrix x, double value) = 0;
  /// Contiguous or strided copy, converting the type. Overwrites to.
  virtual void copy(Matrix from, Matrix to) = 0;
  /// x *= factor.
  virtual void scale(Matrix x, double factor) = 0;
  /// Copies x.bytes() contiguous bytes from host memory into x, or from x into host memory. Returns when
  /// done.
  virtual void upload(const void* host, Matrix x) = 0;
  virtual void download(Matrix x, void* host) = 0;
  /// Waits until everything submitted so far is done (a device with queues; nothing on a CPU).
  virtual void synchronize() = 0;
};

}  // namespace plumbline
