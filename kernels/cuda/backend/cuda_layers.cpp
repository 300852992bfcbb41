// The members of CudaOperators for layers: norms, rotary embedding, attention, activations, sums, dropout.
#include "core/base/error.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

/// Limits of the own kernels and of their launches.
void require_supported(const char* op, const AttentionShape& s, const Matrix& q) {
  require(s.head_dim <= 256 && s.values() <= 256 && (s.prefix == 0 || s.past == 0) &&
              s.batch * s.heads <= 65535 && s.past + s.seq < (std::int64_t{1} << 31) - 4,
          op,
          "both head sizes at most 256, batch*heads at most 65535, past + seq below 2^31, no prefix with a "
          "past",
          {{"q", q}});
}

}  // namespace

void CudaOperators::rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  norm_forward(queue_, x, w, {}, y, {}, rstd, epsilon);
}

void CudaOperators::rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                                     Matrix dw) {
  norm_backward(dy, x, w, {}, rstd, residual, dx, dw, {});
}

void CudaOperators::layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                                      double epsilon) {
  norm_forward(queue_, x, w, b, y, mean, rstd, epsilon);
}

void CudaOperators::add_rmsnorm_forward(const ResidualSum& added, Matrix w, Matrix y, Matrix rstd,
                                        double epsilon) {
  added_norm_forward(queue_, added, w, {}, y, {}, rstd, epsilon);
}

void CudaOperators::add_layernorm_forward(const ResidualSum& added, Matrix w, Matrix b, Matrix y, Matrix mean,
                                          Matrix rstd, double epsilon) {
  added_norm_forward(queue_, added, w, b, y, mean, rstd, epsilon);
}

void CudaOperators::layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                                       Matrix residual, Matrix dx, Matrix dw, Matrix db) {
  norm_backward(dy, x, w, mean, rstd, residual, dx, dw, db);
}

void CudaOperators::norm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual,
                                  Matrix dx, Matrix dw, Matrix db) {
  const std::int64_t count = norm_partials(queue_, x.rows);
  auto* partials = partials_.at_least<float>(count * x.cols * (mean.data == nullptr ? 1 : 2));
  cuda::norm_backward(queue_, dy, x, w, mean, rstd, residual, dx, dw, db, partials, count);
}

void CudaOperators::head_norm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  cuda::head_norm_forward(queue_, x, w, y, rstd, epsilon);
}

void CudaOperators::head_norm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw) {
  require(w.cols <= kMostHeadNorm, "head_norm_backward", "head_dim at most 2048", {{"x", x}, {"w", w}});
  if (x.empty()) return;
  const std::int64_t count = head_norm_partials(queue_, x.rows * rstd.cols);
  cuda::head_norm_backward(queue_, dy, x, w, rstd, dx, dw, partials_.at_least<float>(count * w.cols));
}

void CudaOperators::rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  cuda::rope(queue_, x, cos, sin, head_dim, inverse);
}

void CudaOperators::rope_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  cuda::rope_neighbours(queue_, x, cos, sin, head_dim, inverse);
}

std::int64_t CudaOperators::attention_scratch(const AttentionShape& shape, DType type) const {
  return attention_scratch_elements(shape, type, cudnn_.deterministic());
}

void CudaOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                      Matrix lse, Matrix scratch) {
  require_supported("attention_forward", shape, q);
  require_scratch("attention_forward", scratch, attention_scratch(shape, q.dtype));
  if (cudnn_.forward(shape, q, k, v, out, lse, scratch)) return;
  cuda::attention_forward(queue_, shape, q, k, v, out, lse);
}

void CudaOperators::attention_merge(Matrix out, Matrix lse, Matrix part, Matrix part_lse) {
  cuda::attention_merge(queue_, out, lse, part, part_lse);
}

void CudaOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                       Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                       Matrix scratch) {
  require_supported("attention_backward", shape, q);
  require_scratch("attention_backward", scratch, attention_scratch(shape, q.dtype));
  if (cudnn_.backward(shape, q, k, v, out, lse, dout, dq, dk, dv, scratch)) return;
  cuda::attention_backward(queue_, shape, q, k, v, out, lse, dout, dq, dk, dv, scratch.as<float>());
}

void CudaOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  cuda::swiglu_forward(queue_, gate_up, y);
}

void CudaOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  cuda::swiglu_backward(queue_, dy, gate_up, dgate_up);
}

void CudaOperators::geglu_forward(Matrix gate_up, Matrix y) {
  cuda::geglu_forward(queue_, gate_up, y);
}

void CudaOperators::geglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  cuda::geglu_backward(queue_, dy, gate_up, dgate_up);
}

void CudaOperators::pointwise_forward(Pointwise function, Matrix x, Matrix y) {
  cuda::pointwise_forward(queue_, function, x, y);
}

void CudaOperators::pointwise_backward(Pointwise function, Matrix dy, Matrix x, Matrix dx) {
  cuda::pointwise_backward(queue_, function, dy, x, dx);
}

void CudaOperators::gelu_forward(Matrix x, Matrix y) {
  cuda::gelu_forward(queue_, x, y);
}

void CudaOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  cuda::gelu_backward(queue_, dy, x, dx);
}

void CudaOperators::add(Matrix a, Matrix b, Matrix bias, Matrix y) {
  cuda::add(queue_, a, b, 1, bias, y);
}

void CudaOperators::add_multiple(Matrix a, Matrix b, double factor, Matrix bias, Matrix y) {
  cuda::add(queue_, a, b, static_cast<float>(factor), bias, y);
}

void CudaOperators::dropout_mask(const Dropout& dropout, Matrix mask) {
  cuda::dropout_mask(queue_, dropout, mask);
}

void CudaOperators::dropout_add(Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                                Matrix y) {
  cuda::dropout_add(queue_, x, bias, residual, mask, probability, y);
}

void CudaOperators::dropout_backward(Matrix dy, Matrix mask, double probability, Matrix dx) {
  cuda::dropout_add(queue_, dy, {}, {}, mask, probability, dx);
}

void CudaOperators::bias_backward(Matrix dy, Matrix dbias) {
  if (dy.empty()) return;
  const std::int64_t count = bias_partials(queue_, dy.rows, dy.cols);
  cuda::bias_backward(queue_, dy, dbias, partials_.at_least<float>(count * dy.cols), count);
}

}  // namespace plumbline::cuda
