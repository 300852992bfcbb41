// Requirements of all backends on MoE operators.
#include "kernels/checks.hpp"

namespace plumbline {
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

void require_route(const Router& router, const Matrix& logits, const Matrix& chosen) {
  require(
      is_router(router, logits) && of_choices(chosen, router, logits, DType::int32), "route",
      "logits (T,E) fp32, 1 <= k <= E in reach, groups of equal size, bias (1,E) fp32, chosen (1,T*k) int32",
      {{"logits", logits}, {"chosen", chosen}, {"bias", router.bias}});
}

void require_arrange(const Router& router, const Matrix& logits, const Matrix& chosen, const Matrix& places,
                     const Matrix& tokens, const Matrix& weights) {
  require(
      is_router(router, logits) && of_choices(chosen, router, logits, DType::int32) &&
          of_choices(places, router, logits, DType::int32) && of_rows(tokens, router, logits, DType::int32) &&
          has_shape(weights, 1, tokens.cols, DType::fp32),
      "arrange",
      "logits (T,E) fp32, 1 <= k <= E, chosen, places (1,T*k) int32, tokens (1,N) int32, weights (1,N) fp32",
      {{"logits", logits}, {"chosen", chosen}, {"places", places}, {"tokens", tokens}, {"weights", weights}});
}

void require_route_backward(const Router& router, const Matrix& logits, const Matrix& chosen,
                            const Matrix& places, const Matrix& dweights, const Matrix& dlogits) {
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

void require_joined_heads(const Matrix& shared, const Matrix& own, std::int64_t heads, const Matrix& whole) {
  require_heads("join_heads", shared, own, heads, whole);
  require(shared.dtype == whole.dtype && shared.rows == whole.rows, "join_heads",
          "shared (T,r) of the whole's type", {{"shared", shared}, {"whole", whole}});
}

void require_sigmoid(const char* op, const Matrix& dy, const Matrix& y, const Matrix& dx) {
  require(is_storage(y) && alike(dy, y) && alike(dx, y), op, "matrices of one shape and floating point type",
          {{"dy", dy}, {"y", y}, {"dx", dx}});
}

void require_scale_rows(const Matrix& x, const Matrix& factors, const Matrix& y) {
  require(is_storage(x) && alike(x, y) && is_row(factors, x, DType::fp32), "scale_rows",
          "x, y (N,n) of one floating point type, factors (1,N) fp32",
          {{"x", x}, {"factors", factors}, {"y", y}});
}

void require_combine_rows(const Matrix& x, const Matrix& places, const Matrix& y) {
  require(is_storage(x) && (y.dtype == x.dtype || y.dtype == DType::fp32) && x.cols == y.cols &&
              places.rows == 1 && places.dtype == DType::int32 && y.rows > 0 && places.cols % y.rows == 0,
          "combine_rows", "x (N,h), places (1,T*k) int32, y (T,h) of x's type or fp32",
          {{"x", x}, {"places", places}, {"y", y}});
}

}  // namespace plumbline
