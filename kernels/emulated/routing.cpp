// MoE operators: tokens are spread evenly, the first experts take the remainder.
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {

void EmulatedOperators::route(const Router& /*router*/, Matrix logits, Matrix chosen, std::int64_t* counts) {
  for (std::int64_t i = 0; i < logits.cols; ++i)
    counts[i] = chosen.cols / logits.cols + (i < chosen.cols % logits.cols ? 1 : 0);
  pass_over("route", logits.dtype, {logits}, {chosen});
}

void EmulatedOperators::arrange(const Router& /*router*/, Matrix logits, Matrix chosen, Matrix places,
                                Matrix tokens, Matrix weights) {
  pass_over("arrange", logits.dtype, {logits, chosen}, {places, tokens, weights});
}

void EmulatedOperators::route_backward(const Router& /*router*/, Matrix logits, Matrix chosen, Matrix places,
                                       Matrix dweights, Matrix dlogits) {
  pass_over("route_backward", logits.dtype, {logits, chosen, places, dweights}, {dlogits});
}

void EmulatedOperators::join_heads(Matrix shared, Matrix own, std::int64_t /*heads*/, Matrix y) {
  pass_over("join_heads", y.dtype, {shared, own}, {y});
}

void EmulatedOperators::split_heads(Matrix dy, std::int64_t /*heads*/, Matrix shared, Matrix own) {
  pass_over("split_heads", dy.dtype, {dy}, {shared, own});
}

void EmulatedOperators::sigmoid_forward(Matrix x, Matrix y) {
  pass_over("sigmoid_forward", x.dtype, {x}, {y});
}

void EmulatedOperators::sigmoid_backward(Matrix dy, Matrix y, Matrix dx) {
  pass_over("sigmoid_backward", y.dtype, {dy, y}, {dx});
}

void EmulatedOperators::scale_rows(Matrix x, Matrix /*factors*/, Matrix y) {
  pass_over("scale_rows", x.dtype, {x}, {y});
}

void EmulatedOperators::combine_rows(Matrix x, Matrix /*places*/, bool accumulate, Matrix y) {
  pass_over("combine_rows", x.dtype, {x, accumulate ? y : Matrix()}, {y});
}

}  // namespace plumbline::emulated
