// Requirements of the operators of a layer: norms, rotary embedding, activations, dropout, joined heads.
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

constexpr const char* kNormForward =
    "x, y (T,h), w, b (1,h) of one floating point type, mean, rstd (1,T) fp32";
constexpr const char* kNormBackward =
    "dy, x, dx, residual or empty (T,h), w (1,h) of one floating point type, mean, rstd (1,T) fp32, dw, db "
    "(1,h) of one";

void require_added_norm(const char* op, const ResidualSum& added, const Matrix& y,
                        std::initializer_list<Matrix> parameters, std::initializer_list<Matrix> statistics) {
  add_multiple(added.a, added.b, added.factor, added.bias, added.sum);
  require(alike(added.sum, y), op, "sum, y (T,h) of one type", {{"sum", added.sum}, {"y", y}});
  for (const Matrix& w : parameters)
    require(is_parameter(w, y), op, "w, b (1,h) of y's type", {{"y", y}, {"w or b", w}});
  for (const Matrix& each : statistics)
    require(is_row(each, y, DType::fp32), op, "mean, rstd (1,T) fp32", {{"y", y}, {"mean or rstd", each}});
}

void require_head_norm(const char* op, const Matrix& x, const Matrix& w, const Matrix& y,
                       const Matrix& rstd) {
  require(is_storage(x) && alike(x, y) && w.cols > 0 && has_shape(w, 1, w.cols, x.dtype) &&
              has_shape(rstd, x.rows, x.cols / w.cols, DType::fp32) && rstd.cols * w.cols == x.cols,
          op, "x, y (T, heads*head_dim), w (1, head_dim) of one floating point type, rstd (T, heads) fp32",
          {{"x", x}, {"w", w}, {"y", y}, {"rstd", rstd}});
}

void require_rope(const char* op, const Matrix& x, const Matrix& cos, const Matrix& sin,
                  std::int64_t head_dim) {
  require(is_storage(x) && head_dim > 0 && x.cols % head_dim == 0 && cos.rows > 0 &&
              2 * cos.cols <= head_dim && cos.dtype == DType::fp32 && alike(cos, sin),
          op, "x (T, heads*head_dim) floating point, cos, sin (seq, at most head_dim/2) fp32",
          {{"x", x}, {"cos", cos}, {"sin", sin}});
}

void require_gated(const char* op, const Matrix& gate_up, const Matrix& y) {
  require(is_storage(y) && has_shape(gate_up, y.rows, 2 * y.cols, y.dtype), op,
          "gate_up (T,2F), y (T,F) of one floating point type", {{"gate_up", gate_up}, {"y", y}});
}
void require_gated_backward(const char* op, const Matrix& dy, const Matrix& gate_up, const Matrix& dgate_up) {
  require(is_storage(dy) && has_shape(gate_up, dy.rows, 2 * dy.cols, dy.dtype) && alike(gate_up, dgate_up),
          op, "dy (T,F), gate_up, dgate_up (T,2F) of one floating point type",
          {{"dy", dy}, {"gate_up", gate_up}, {"dgate_up", dgate_up}});
}

void require_alike(const char* op, const Matrix& x, const Matrix& y) {
  require(is_storage(x) && alike(x, y), op, "x, y of one shape and floating point type",
          {{"x", x}, {"y", y}});
}
void require_alike(const char* op, const Matrix& dy, const Matrix& x, const Matrix& dx) {
  require(is_storage(x) && alike(dy, x) && alike(dx, x), op,
          "three matrices of one shape and floating point type", {{"dy", dy}, {"x or y", x}, {"dx", dx}});
}

/// The shared part may be empty, or of fp32.
void require_heads(const char* op, const Matrix& shared, const Matrix& own, std::int64_t heads,
                   const Matrix& whole) {
  const std::int64_t width = heads > 0 ? whole.cols / heads - own.cols / heads : 0;
  const bool wanted = shared.data != nullptr || shared.rows > 0;
  require(heads > 0 && is_storage(whole) && whole.dtype == own.dtype && own.rows == whole.rows &&
              whole.cols % heads == 0 && own.cols % heads == 0 && width > 0 &&
              (!wanted || (has_shape(shared, whole.rows, width) &&
                           (shared.dtype == whole.dtype || shared.dtype == DType::fp32))),
          op, "shared (T,r), own (T,heads*n), whole (T,heads*(r+n)) of one floating point type",
          {{"shared", shared}, {"own", own}, {"whole", whole}});
}

}  // namespace

void rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double /*epsilon*/) {
  require(is_storage(x) && is_parameter(w, x) && alike(x, y) && is_row(rstd, x, DType::fp32),
          "rmsnorm_forward", kNormForward, {{"x", x}, {"w", w}, {"y", y}, {"rstd", rstd}});
}

void rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx, Matrix dw) {
  require(is_storage(x) && alike(dy, x) && is_parameter(w, x) && is_row(rstd, x, DType::fp32) &&
              absent_or_alike(residual, x) && alike(dx, x) && (dw.empty() || is_gradient(dw, x.cols)),
          "rmsnorm_backward", kNormBackward,
          {{"dy", dy}, {"x", x}, {"w", w}, {"rstd", rstd}, {"residual", residual}, {"dx", dx}, {"dw", dw}});
}

void layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd, double /*epsilon*/) {
  require(is_storage(x) && is_parameter(w, x) && is_parameter(b, x) && alike(x, y) &&
              is_row(mean, x, DType::fp32) && is_row(rstd, x, DType::fp32),
          "layernorm_forward", kNormForward,
          {{"x", x}, {"w", w}, {"b", b}, {"y", y}, {"mean", mean}, {"rstd", rstd}});
}

void layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual, Matrix dx,
                        Matrix dw, Matrix db) {
  require(is_storage(x) && alike(dy, x) && is_parameter(w, x) && is_row(mean, x, DType::fp32) &&
              is_row(rstd, x, DType::fp32) && absent_or_alike(residual, x) && alike(dx, x) &&
              (dw.empty() ? db.empty() : is_gradient(dw, x.cols) && alike(db, dw)),
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
}

void add_rmsnorm_forward(const ResidualSum& added, Matrix w, Matrix y, Matrix rstd, double /*epsilon*/) {
  require_added_norm("add_rmsnorm_forward", added, y, {w}, {rstd});
}

void add_layernorm_forward(const ResidualSum& added, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                           double /*epsilon*/) {
  require_added_norm("add_layernorm_forward", added, y, {w, b}, {mean, rstd});
}

void head_norm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double /*epsilon*/) {
  require_head_norm("head_norm_forward", x, w, y, rstd);
}

void head_norm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw) {
  require_head_norm("head_norm_backward", x, w, dy, rstd);
  require(alike(dx, x) && (dw.empty() || is_gradient(dw, w.cols)), "head_norm_backward",
          "dx as x, dw (1, head_dim) floating point or empty", {{"x", x}, {"dx", dx}, {"dw", dw}});
}

void rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool /*inverse*/) {
  require_rope("rope", x, cos, sin, head_dim);
}

void rope_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool /*inverse*/) {
  require_rope("rope_neighbours", x, cos, sin, head_dim);
}

void swiglu_forward(Matrix gate_up, Matrix y) {
  require_gated("swiglu_forward", gate_up, y);
}

void swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  require_gated_backward("swiglu_backward", dy, gate_up, dgate_up);
}

void geglu_forward(Matrix gate_up, Matrix y) {
  require_gated("geglu_forward", gate_up, y);
}

void geglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  require_gated_backward("geglu_backward", dy, gate_up, dgate_up);
}

void gelu_forward(Matrix x, Matrix y) {
  require_alike("gelu_forward", x, y);
}

void gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  require_alike("gelu_backward", dy, x, dx);
}

void pointwise_forward(Pointwise /*function*/, Matrix x, Matrix y) {
  require_alike("pointwise_forward", x, y);
}

void pointwise_backward(Pointwise /*function*/, Matrix dy, Matrix x, Matrix dx) {
  require_alike("pointwise_backward", dy, x, dx);
}

void sigmoid_forward(Matrix x, Matrix y) {
  require_alike("sigmoid_forward", x, y);
}

void sigmoid_backward(Matrix dy, Matrix y, Matrix dx) {
  require_alike("sigmoid_backward", dy, y, dx);
}

void dropout_mask(const Dropout& dropout, Matrix mask) {
  require_probability("dropout_mask", dropout.probability);
  require(mask.dtype == DType::uint8, "dropout_mask", "mask (T,h) uint8", {{"mask", mask}});
}

void dropout_add(Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability, Matrix y) {
  require_probability("dropout_add", probability);
  require(is_storage(y) && alike(x, y) && absent_or_alike(residual, y) &&
              has_shape(mask, y.rows, y.cols, DType::uint8) && absent_or_parameter(bias, y),
          "dropout_add",
          "x, y, residual or empty (T,h), bias (1,h) or empty, of one floating point type, mask (T,h) uint8",
          {{"x", x}, {"bias", bias}, {"residual", residual}, {"mask", mask}, {"y", y}});
}

void dropout_backward(Matrix dy, Matrix mask, double probability, Matrix dx) {
  require_probability("dropout_backward", probability);
  require(is_storage(dx) && alike(dy, dx) && has_shape(mask, dx.rows, dx.cols, DType::uint8),
          "dropout_backward", "dy, dx (T,h) of one floating point type, mask (T,h) uint8",
          {{"dy", dy}, {"mask", mask}, {"dx", dx}});
}

void join_heads(Matrix shared, Matrix own, std::int64_t heads, Matrix y) {
  require_heads("join_heads", shared, own, heads, y);
  require(shared.dtype == y.dtype && shared.rows == y.rows, "join_heads", "shared (T,r) of the whole's type",
          {{"shared", shared}, {"whole", y}});
}

void split_heads(Matrix dy, std::int64_t heads, Matrix shared, Matrix own) {
  require_heads("split_heads", shared, own, heads, dy);
}

}  // namespace plumbline::checks
