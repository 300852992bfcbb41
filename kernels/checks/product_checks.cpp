// Requirements of matrix products, plain passes over a matrix, and the optimizer.
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

/// A, B, C and the bias of a product whose operands are FP8.
bool fp8_product_agrees(const Gemm& gemm) {
  const Matrix& bias = gemm.bias;
  return is_fp8(gemm.a.dtype) && is_fp8(gemm.b.dtype) &&
         (gemm.a.dtype == DType::fp8_e4m3 || gemm.b.dtype == DType::fp8_e4m3) && !gemm.a_transposed &&
         gemm.b_transposed && gemm.bias_gradient.data == nullptr && is_storage(gemm.c) &&
         is_number(gemm.a_inverse_scale) && is_number(gemm.b_inverse_scale) &&
         (bias.data == nullptr || bias.dtype == gemm.c.dtype ||
          (gemm.c.dtype == DType::fp32 && is_storage(bias)));
}

bool storage_product_agrees(const Gemm& gemm) {
  return is_storage(gemm.a) && gemm.a.dtype == gemm.b.dtype &&
         (gemm.c.dtype == gemm.a.dtype || gemm.c.dtype == DType::fp32) &&
         (gemm.bias.data == nullptr || gemm.bias.dtype == gemm.a.dtype) &&
         gemm.a_inverse_scale.data == nullptr && gemm.b_inverse_scale.data == nullptr;
}

bool bias_gradient_agrees(const Gemm& gemm) {
  const Matrix& gradient = gemm.bias_gradient;
  return gradient.data == nullptr || (gemm.a_transposed && is_gradient(gradient, gemm.c.rows));
}

/// True if `x` has the parameter's number of elements, without gaps.
bool matches(const Matrix& x, const Matrix& parameter) {
  return x.elements() == parameter.elements() && x.contiguous();
}
bool is_state(const Matrix& x, const Matrix& parameter) {
  return matches(x, parameter) && x.dtype == DType::fp32;
}
/// fp32 parameters are their own master.
bool is_updatable(const Matrix& parameter, const Matrix& gradient, const Matrix& master) {
  return is_storage(parameter) && is_storage(gradient) && parameter.contiguous() &&
         matches(gradient, parameter) &&
         (parameter.dtype == DType::fp32 ? master.data == nullptr : is_state(master, parameter));
}

constexpr const char* kStates =
    "equal element counts without gaps, master and moments fp32, master empty for fp32 parameters, step >= 1";

}  // namespace

void gemm(const Gemm& gemm) {
  const Matrix& a = gemm.a;
  const Matrix& b = gemm.b;
  const Matrix& c = gemm.c;
  const std::int64_t k = gemm.a_transposed ? a.rows : a.cols;
  const bool shapes_agree = (gemm.a_transposed ? a.cols : a.rows) == c.rows &&
                            (gemm.b_transposed ? b.cols : b.rows) == k &&
                            (gemm.b_transposed ? b.rows : b.cols) == c.cols &&
                            (gemm.bias.data == nullptr || has_shape(gemm.bias, 1, c.cols));
  const char* op = gemm.a_transposed   ? "gemm (A transposed)"
                   : gemm.b_transposed ? "gemm (B transposed)"
                                       : "gemm";
  if (is_fp8(a.dtype) || is_fp8(b.dtype)) {
    return require(
        shapes_agree && fp8_product_agrees(gemm), op,
        "A (m,k), B (n,k) transposed, one of them or both fp8_e4m3, the other fp8_e5m2, C (m,n) "
        "floating point, bias (1,n) of C's type or empty, no bias gradient, inverse scales (1,1) fp32",
        {{"A", a},
         {"B", b},
         {"C", c},
         {"bias", gemm.bias},
         {"A's inverse scale", gemm.a_inverse_scale},
         {"B's", gemm.b_inverse_scale}});
  }
  require(shapes_agree && storage_product_agrees(gemm), op,
          "op(A) (m,k), op(B) (k,n) of one floating point type, C (m,n) of that type or fp32, bias (1,n) or "
          "empty, no scales",
          {{"A", a}, {"B", b}, {"C", c}, {"bias", gemm.bias}});
  require(bias_gradient_agrees(gemm), op,
          "a bias gradient (1,m) of a floating point type where A is transposed, or none",
          {{"A", a}, {"C", c}, {"bias gradient", gemm.bias_gradient}});
  require(k > 0 || c.empty() || gemm.bias.data == nullptr, op, "no bias when k is 0",
          {{"A", a}, {"bias", gemm.bias}});
}

void bias_backward(Matrix dy, Matrix dbias) {
  require(is_storage(dy) && is_gradient(dbias, dy.cols), "bias_backward",
          "dy (T,n), dbias (1,n) of floating point types", {{"dy", dy}, {"dbias", dbias}});
}

void add(Matrix a, Matrix b, Matrix bias, Matrix y) {
  require(is_storage(y) && alike(a, y) && alike(b, y) && absent_or_parameter(bias, y), "add",
          "a, b, y (T,h), bias (1,h) or empty, of one floating point type",
          {{"a", a}, {"b", b}, {"bias", bias}, {"y", y}});
}

void add_multiple(Matrix a, Matrix b, double /*factor*/, Matrix bias, Matrix y) {
  require(is_storage(y) && alike(a, y) && alike(b, y) && absent_or_parameter(bias, y), "add_multiple",
          "a, b, y (T,h), bias (1,h) or empty, of one floating point type",
          {{"a", a}, {"b", b}, {"bias", bias}, {"y", y}});
}

void adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
          const AdamStep& step) {
  require(is_updatable(parameter, gradient, master) && is_state(moment1, parameter) &&
              is_state(moment2, parameter) && step.step >= 1,
          "adam", kStates,
          {{"parameter", parameter},
           {"gradient", gradient},
           {"master", master},
           {"moment1", moment1},
           {"moment2", moment2}});
}

void sgd(Matrix parameter, Matrix gradient, Matrix master, const DescentStep& /*step*/) {
  require(is_updatable(parameter, gradient, master), "sgd", kStates,
          {{"parameter", parameter}, {"gradient", gradient}, {"master", master}});
}

void lion(Matrix parameter, Matrix gradient, Matrix master, Matrix momentum, const LionStep& /*step*/) {
  require(is_updatable(parameter, gradient, master) && is_state(momentum, parameter), "lion", kStates,
          {{"parameter", parameter}, {"gradient", gradient}, {"master", master}, {"momentum", momentum}});
}

void momentum(Matrix gradient, Matrix momentum, Matrix update, const MomentumStep& /*step*/) {
  const bool into = update.data == nullptr || (is_storage(update) && matches(update, gradient));
  require(is_storage(gradient) && gradient.contiguous() && is_state(momentum, gradient) && into, "momentum",
          "equal element counts without gaps, momentum fp32",
          {{"gradient", gradient}, {"momentum", momentum}, {"update", update}});
}

void normalize(Matrix x, double epsilon) {
  require(is_storage(x) && x.contiguous() && epsilon > 0, "normalize", "no gaps, epsilon > 0", {{"x", x}});
}

void weighted_sum(Matrix a, double /*of_a*/, Matrix b, double /*of_b*/, Matrix y) {
  require(is_storage(y) && alike(a, y) && alike(b, y), "weighted_sum", "a, b, y of one type and shape",
          {{"a", a}, {"b", b}, {"y", y}});
}

void squared_norm(Matrix x) {
  require(is_storage(x), "squared_norm", "a floating point type", {{"x", x}});
}

void fill(Matrix x, double /*value*/) {
  require(is_storage(x) || x.dtype == DType::int32, "fill", "a floating point type or int32", {{"x", x}});
}

void copy(Matrix from, Matrix to) {
  require(same_shape(from, to), "copy", "two matrices of one shape", {{"from", from}, {"to", to}});
  require(from.dtype == to.dtype || (is_storage(from) && is_storage(to)), "copy",
          "one type, or two floating point types", {{"from", from}, {"to", to}});
}

void scale(Matrix x, double /*factor*/) {
  require(is_storage(x), "scale", "a floating point type", {{"x", x}});
}

void upload(const void* /*host*/, Matrix x) {
  require(x.contiguous(), "upload", "a contiguous matrix", {{"x", x}});
}

void download(Matrix x, void* /*host*/) {
  require(x.contiguous(), "download", "a contiguous matrix", {{"x", x}});
}

void synchronize() {}

}  // namespace plumbline::checks
