// Requirements of the MoE operators.
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

bool is_router(const Router& router, const Matrix& logits) {
  if (logits.dtype != DType::fp32 || router.groups < 1 || logits.cols % router.groups != 0) return false;
  const std::int64_t in_reach = logits.cols / router.groups * router.chosen_groups;
  return router.chosen_groups >= 1 && router.chosen_groups <= router.groups && router.top_k >= 1 &&
         router.top_k <= in_reach && router.capacity >= 0 && router.capacity <= logits.rows &&
         router.multiple >= 1 &&
         (router.bias.data == nullptr || has_shape(router.bias, 1, logits.cols, DType::fp32));
}
/// One number for every choice.
bool of_choices(const Matrix& x, const Router& router, const Matrix& logits, DType type) {
  return has_shape(x, 1, logits.rows * router.top_k, type);
}

/// One number for every row that experts work on: their count follows from the choices with a capacity or a
/// multiple.
bool of_rows(const Matrix& x, const Router& router, const Matrix& logits, DType type) {
  const std::int64_t choices = logits.rows * router.top_k;
  if (router.capacity == 0 && router.multiple == 1) return has_shape(x, 1, choices, type);
  const std::int64_t most = router.capacity > 0 ? router.rows_of(router.capacity) * logits.cols
                                                : choices + (router.multiple - 1) * logits.cols;
  const bool exactly = router.capacity > 0 && router.padded;
  return has_shape(x, 1, x.cols, type) && x.cols > 0 && x.cols % router.multiple == 0 &&
         (exactly ? x.cols == most : x.cols <= most);
}

}  // namespace

void route(const Router& router, Matrix logits, Matrix chosen, std::int64_t* /*counts*/) {
  require(
      is_router(router, logits) && of_choices(chosen, router, logits, DType::int32), "route",
      "logits (T,E) fp32, 1 <= k <= E in reach, groups of equal size, bias (1,E) fp32, chosen (1,T*k) int32",
      {{"logits", logits}, {"chosen", chosen}, {"bias", router.bias}});
}

void arrange(const Router& router, Matrix logits, Matrix chosen, Matrix places, Matrix tokens,
             Matrix weights) {
  require(
      is_router(router, logits) && of_choices(chosen, router, logits, DType::int32) &&
          of_choices(places, router, logits, DType::int32) && of_rows(tokens, router, logits, DType::int32) &&
          has_shape(weights, 1, tokens.cols, DType::fp32),
      "arrange",
      "logits (T,E) fp32, 1 <= k <= E, chosen, places (1,T*k) int32, tokens (1,N) int32, weights (1,N) fp32",
      {{"logits", logits}, {"chosen", chosen}, {"places", places}, {"tokens", tokens}, {"weights", weights}});
}

void route_backward(const Router& router, Matrix logits, Matrix chosen, Matrix places, Matrix dweights,
                    Matrix dlogits) {
  const bool sequences = router.balanced_tokens >= 0 &&
                         (router.balanced_tokens == 0 || logits.rows % router.balanced_tokens == 0);
  const bool loads = router.load.data == nullptr || has_shape(router.load, 1, logits.cols, DType::fp32);
  require(sequences && loads && is_router(router, logits) &&
              of_choices(chosen, router, logits, DType::int32) &&
              (places.data == nullptr ? of_choices(dweights, router, logits, DType::fp32)
                                      : of_choices(places, router, logits, DType::int32) &&
                                            of_rows(dweights, router, logits, DType::fp32)) &&
              is_storage(dlogits) && same_shape(dlogits, logits),
          "route_backward",
          "logits (T,E) fp32, T a multiple of balanced_tokens, 1 <= k <= E, load none or (1,E) fp32, chosen, "
          "places (1,T*k) int32, "
          "dweights (1,N) fp32, dlogits (T,E)",
          {{"logits", logits},
           {"load", router.load},
           {"chosen", chosen},
           {"places", places},
           {"dweights", dweights},
           {"dlogits", dlogits}});
}

void scale_rows(Matrix x, Matrix factors, Matrix y) {
  require(is_storage(x) && alike(x, y) && is_row(factors, x, DType::fp32), "scale_rows",
          "x, y (N,n) of one floating point type, factors (1,N) fp32",
          {{"x", x}, {"factors", factors}, {"y", y}});
}

void combine_rows(Matrix x, Matrix places, bool /*accumulate*/, Matrix y) {
  require(is_storage(x) && (y.dtype == x.dtype || y.dtype == DType::fp32) && x.cols == y.cols &&
              places.rows == 1 && places.dtype == DType::int32 && y.rows > 0 && places.cols % y.rows == 0,
          "combine_rows", "x (N,h), places (1,T*k) int32, y (T,h) of x's type or fp32",
          {{"x", x}, {"places", places}, {"y", y}});
}

}  // namespace plumbline::checks
