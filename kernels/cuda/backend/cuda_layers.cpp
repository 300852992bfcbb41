// The members of CudaOperators for layers: norms, rotary embedding, attention, activations, sums, dropout.
#include "core/base/error.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

bool is_statistic(const Matrix& statistic, const Matrix& x) {
  return has_shape(statistic, 1, x.rows, DType::fp32);
}
bool absent_or_alike(const Matrix& x, const Matrix& y) {
  return x.data == nullptr || alike(x, y);
}

constexpr const char* kNormForward =
    "x, y (T,h), w, b (1,h) of one floating point type, mean, rstd (1,T) fp32";
constexpr const char* kNormBackward =
    "dy, x, dx, residual or empty (T,h), w (1,h) of one floating point type, mean, rstd (1,T) fp32, dw, db "
    "(1,h) "
    "of one";
constexpr const char* kAttention =
    "q (T, heads*head_dim), k (batch*keys, kv_heads*head_dim), out and v with values() in place of head_dim, "
    "of "
    "one floating point type, gradients alike, T = batch*seq, heads a multiple of kv_heads, past + seq below "
    "2^31, no prefix with a past, "
    "batch*heads at "
    "most 65535, both head sizes at most 256, lse (batch*heads, seq) fp32, scratch fp32 of at least "
    "attention_scratch "
    "elements";

bool is_consistent(const AttentionShape& s) {
  return s.batch >= 0 && s.seq > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0 && s.head_dim <= 256 &&
         s.values() <= 256 && s.heads % s.kv_heads == 0 && (s.prefix == 0 || s.past == 0) &&
         s.batch * s.heads <= 65535 && s.past + s.seq < (std::int64_t{1} << 31) - 4;
}
bool agrees(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& out,
            const Matrix& lse, const Matrix& scratch, std::int64_t wanted) {
  return is_consistent(s) && is_storage(q) && has_shape(q, s.batch * s.seq, s.heads * s.head_dim) &&
         has_shape(k, s.batch * s.keys(), s.kv_heads * s.head_dim, q.dtype) &&
         has_shape(v, s.batch * s.keys(), s.kv_heads * s.values(), q.dtype) &&
         has_shape(out, s.batch * s.seq, s.heads * s.values(), q.dtype) &&
         has_shape(lse, s.batch * s.heads, s.seq, DType::fp32) && scratch.dtype == DType::fp32 &&
         scratch.contiguous() && scratch.elements() >= wanted;
}

}  // namespace

void CudaOperators::rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  require(is_storage(x) && has_shape(w, 1, x.cols, x.dtype) && alike(x, y) && is_statistic(rstd, x),
          "rmsnorm_forward", kNormForward, {{"x", x}, {"w", w}, {"y", y}, {"rstd", rstd}});
  norm_forward(queue_, x, w, {}, y, {}, rstd, epsilon);
}

void CudaOperators::rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                                     Matrix dw) {
  require(is_storage(x) && alike(dy, x) && has_shape(w, 1, x.cols, x.dtype) && is_statistic(rstd, x) &&
              absent_or_alike(residual, x) && alike(dx, x) && is_storage(dw) && has_shape(dw, 1, x.cols),
          "rmsnorm_backward", kNormBackward,
          {{"dy", dy}, {"x", x}, {"w", w}, {"rstd", rstd}, {"residual", residual}, {"dx", dx}, {"dw", dw}});
  norm_backward(dy, x, w, {}, rstd, residual, dx, dw, {});
}

void CudaOperators::layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                                      double epsilon) {
  require(is_storage(x) && has_shape(w, 1, x.cols, x.dtype) && has_shape(b, 1, x.cols, x.dtype) &&
              alike(x, y) && is_statistic(mean, x) && is_statistic(rstd, x),
          "layernorm_forward", kNormForward,
          {{"x", x}, {"w", w}, {"b", b}, {"y", y}, {"mean", mean}, {"rstd", rstd}});
  norm_forward(queue_, x, w, b, y, mean, rstd, epsilon);
}

void CudaOperators::add_rmsnorm_forward(const ResidualSum& added, Matrix w, Matrix y, Matrix rstd,
                                        double epsilon) {
  require_added_norm("add_rmsnorm_forward", added, y, {w}, {rstd});
  added_norm_forward(queue_, added, w, {}, y, {}, rstd, epsilon);
}

void CudaOperators::add_layernorm_forward(const ResidualSum& added, Matrix w, Matrix b, Matrix y, Matrix mean,
                                          Matrix rstd, double epsilon) {
  require_added_norm("add_layernorm_forward", added, y, {w, b}, {mean, rstd});
  added_norm_forward(queue_, added, w, b, y, mean, rstd, epsilon);
}

void CudaOperators::layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                                       Matrix residual, Matrix dx, Matrix dw, Matrix db) {
  require(is_storage(x) && alike(dy, x) && has_shape(w, 1, x.cols, x.dtype) && is_statistic(mean, x) &&
              is_statistic(rstd, x) && absent_or_alike(residual, x) && alike(dx, x) && is_storage(dw) &&
              has_shape(dw, 1, x.cols) && alike(db, dw),
          "layernorm_backward", kNormBackward,
          {{"dy", dy},
           {"x", x},
           {"w", w},
           {"mean", mean},
           {"rstd", rstd},
           {"residual", residual},
           {"dx", dx},
           {"dw", dw},
           {"db", db}});
  norm_backward(dy, x, w, mean, rstd, residual, dx, dw, db);
}

void CudaOperators::norm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual,
                                  Matrix dx, Matrix dw, Matrix db) {
  const std::int64_t count = norm_partials(queue_, x.rows);
  auto* partials = partials_.at_least<float>(count * x.cols * (mean.data == nullptr ? 1 : 2));
  cuda::norm_backward(queue_, dy, x, w, mean, rstd, residual, dx, dw, db, partials, count);
}

void CudaOperators::head_norm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  require_head_norm("head_norm_forward", x, w, y, rstd);
  cuda::head_norm_forward(queue_, x, w, y, rstd, epsilon);
}

void CudaOperators::head_norm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw) {
  require_head_norm("head_norm_backward", x, w, dy, rstd);
  require(alike(dx, x) && has_shape(dw, 1, w.cols) && is_storage(dw) && w.cols <= kMostHeadNorm,
          "head_norm_backward", "dx as x, dw (1, head_dim) floating point, head_dim at most 2048",
          {{"x", x}, {"dx", dx}, {"dw", dw}});
  if (x.empty()) return;
  const std::int64_t count = head_norm_partials(queue_, x.rows * rstd.cols);
  cuda::head_norm_backward(queue_, dy, x, w, rstd, dx, dw, partials_.at_least<float>(count * w.cols));
}

void CudaOperators::rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  require_rope("rope", x, cos, sin, head_dim);
  cuda::rope(queue_, x, cos, sin, head_dim, inverse);
}

void CudaOperators::rope_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  require_rope("rope_neighbours", x, cos, sin, head_dim);
  cuda::rope_neighbours(queue_, x, cos, sin, head_dim, inverse);
}

std::int64_t CudaOperators::attention_scratch(const AttentionShape& shape, DType type) const {
  return attention_scratch_elements(shape, type, cudnn_.deterministic());
}

void CudaOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                      Matrix lse, Matrix scratch) {
  require_probability("attention_forward", shape.dropout.probability);
  require_mask("attention_forward", shape);
  require(agrees(shape, q, k, v, out, lse, scratch, attention_scratch(shape, q.dtype)), "attention_forward",
          kAttention, {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"scratch", scratch}});
  if (cudnn_.forward(shape, q, k, v, out, lse, scratch)) return;
  cuda::attention_forward(queue_, shape, q, k, v, out, lse);
}

void CudaOperators::attention_merge(Matrix out, Matrix lse, Matrix part, Matrix part_lse) {
  require_attention_merge(out, lse, part, part_lse);
  cuda::attention_merge(queue_, out, lse, part, part_lse);
}

void CudaOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                       Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                       Matrix scratch) {
  require_probability("attention_backward", shape.dropout.probability);
  require_mask("attention_backward", shape);
  require(agrees(shape, q, k, v, out, lse, scratch, attention_scratch(shape, q.dtype)) && alike(dout, out) &&
              alike(dq, q) && alike(dk, k) && alike(dv, v),
          "attention_backward", kAttention,
          {{"q", q},
           {"k", k},
           {"v", v},
           {"out", out},
           {"lse", lse},
           {"dout", dout},
           {"dq", dq},
           {"dk", dk},
           {"dv", dv},
           {"scratch", scratch}});
  if (cudnn_.backward(shape, q, k, v, out, lse, dout, dq, dk, dv, scratch)) return;
  cuda::attention_backward(queue_, shape, q, k, v, out, lse, dout, dq, dk, dv, scratch.as<float>());
}

void CudaOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  require(is_storage(y) && has_shape(gate_up, y.rows, 2 * y.cols, y.dtype), "swiglu_forward",
          "gate_up (T,2F), y (T,F) of one floating point type", {{"gate_up", gate_up}, {"y", y}});
  cuda::swiglu_forward(queue_, gate_up, y);
}

void CudaOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  require(is_storage(dy) && has_shape(gate_up, dy.rows, 2 * dy.cols, dy.dtype) && alike(gate_up, dgate_up),
          "swiglu_backward", "dy (T,F), gate_up, dgate_up (T,2F) of one floating point type",
          {{"dy", dy}, {"gate_up", gate_up}, {"dgate_up", dgate_up}});
  cuda::swiglu_backward(queue_, dy, gate_up, dgate_up);
}

void CudaOperators::geglu_forward(Matrix gate_up, Matrix y) {
  require(is_storage(y) && has_shape(gate_up, y.rows, 2 * y.cols, y.dtype), "geglu_forward",
          "gate_up (T,2F), y (T,F) of one floating point type", {{"gate_up", gate_up}, {"y", y}});
  cuda::geglu_forward(queue_, gate_up, y);
}

void CudaOperators::geglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  require(is_storage(dy) && has_shape(gate_up, dy.rows, 2 * dy.cols, dy.dtype) && alike(gate_up, dgate_up),
          "geglu_backward", "dy (T,F), gate_up, dgate_up (T,2F) of one floating point type",
          {{"dy", dy}, {"gate_up", gate_up}, {"dgate_up", dgate_up}});
  cuda::geglu_backward(queue_, dy, gate_up, dgate_up);
}

void CudaOperators::pointwise_forward(Pointwise function, Matrix x, Matrix y) {
  require(is_storage(x) && alike(x, y), "pointwise_forward", "x, y (T,F) of one floating point type",
          {{"x", x}, {"y", y}});
  cuda::pointwise_forward(queue_, function, x, y);
}

void CudaOperators::pointwise_backward(Pointwise function, Matrix dy, Matrix x, Matrix dx) {
  require(is_storage(x) && alike(x, dy) && alike(x, dx), "pointwise_backward",
          "dy, x, dx (T,F) of one floating point type", {{"dy", dy}, {"x", x}, {"dx", dx}});
  cuda::pointwise_backward(queue_, function, dy, x, dx);
}

void CudaOperators::gelu_forward(Matrix x, Matrix y) {
  require(is_storage(x) && alike(x, y), "gelu_forward", "x, y (T,F) of one floating point type",
          {{"x", x}, {"y", y}});
  cuda::gelu_forward(queue_, x, y);
}

void CudaOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  require(is_storage(x) && alike(x, dy) && alike(x, dx), "gelu_backward",
          "dy, x, dx (T,F) of one floating point type", {{"dy", dy}, {"x", x}, {"dx", dx}});
  cuda::gelu_backward(queue_, dy, x, dx);
}

void CudaOperators::add(Matrix a, Matrix b, Matrix bias, Matrix y) {
  require(is_storage(y) && alike(a, y) && alike(b, y) &&
              (bias.data == nullptr || has_shape(bias, 1, y.cols, y.dtype)),
          "add", "a, b, y (T,h), bias (1,h) or empty, of one floating point type",
          {{"a", a}, {"b", b}, {"bias", bias}, {"y", y}});
  cuda::add(queue_, a, b, 1, bias, y);
}

void CudaOperators::add_multiple(Matrix a, Matrix b, double factor, Matrix bias, Matrix y) {
  require_add_multiple(a, b, bias, y);
  cuda::add(queue_, a, b, static_cast<float>(factor), bias, y);
}

void CudaOperators::dropout_mask(const Dropout& dropout, Matrix mask) {
  require_probability("dropout_mask", dropout.probability);
  require(mask.dtype == DType::uint8, "dropout_mask", "mask (T,h) uint8", {{"mask", mask}});
  cuda::dropout_mask(queue_, dropout, mask);
}

void CudaOperators::dropout_add(Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                                Matrix y) {
  require_probability("dropout_add", probability);
  require(is_storage(y) && alike(x, y) && absent_or_alike(residual, y) &&
              has_shape(mask, y.rows, y.cols, DType::uint8) &&
              (bias.data == nullptr || has_shape(bias, 1, y.cols, y.dtype)),
          "dropout_add",
          "x, y, residual or empty (T,h), bias (1,h) or empty, of one floating point type, mask (T,h) uint8",
          {{"x", x}, {"bias", bias}, {"residual", residual}, {"mask", mask}, {"y", y}});
  cuda::dropout_add(queue_, x, bias, residual, mask, probability, y);
}

void CudaOperators::dropout_backward(Matrix dy, Matrix mask, double probability, Matrix dx) {
  require_probability("dropout_backward", probability);
  require(is_storage(dx) && alike(dy, dx) && has_shape(mask, dx.rows, dx.cols, DType::uint8),
          "dropout_backward", "dy, dx (T,h) of one floating point type, mask (T,h) uint8",
          {{"dy", dy}, {"mask", mask}, {"dx", dx}});
  cuda::dropout_add(queue_, dy, {}, {}, mask, probability, dx);
}

void CudaOperators::bias_backward(Matrix dy, Matrix dbias) {
  require(is_storage(dy) && is_storage(dbias) && has_shape(dbias, 1, dy.cols), "bias_backward",
          "dy (T,n), dbias (1,n) of floating point types", {{"dy", dy}, {"dbias", dbias}});
  if (dy.empty()) return;
  const std::int64_t count = bias_partials(queue_, dy.rows, dy.cols);
  cuda::bias_backward(queue_, dy, dbias, partials_.at_least<float>(count * dy.cols), count);
}

}  // namespace plumbline::cuda
