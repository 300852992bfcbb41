// Which experts the tokens of a layer go to, and the gradients of what says so. bench/training/mixtures.md lists what is
// allocated when.
#pragma once

#include "bench/training/feed_forward/routing.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Of all tokens, x (T, h). `weight` (E, h); `bias` (1, E) fp32, or empty; `layer`: its number in the model. With a load in
/// `routing` already the micro-batch has been forward before.
void make_routing(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  std::int64_t layer, Routing& routing);
/// The logits' gradient from the weights', fp32 numbers that `gradients` begins with: N by row, of which every tensor rank has
/// seen its columns alone, or, where experts are cut on their own, T·k by choice.
void logits_backward(const TrainingContext& context, const Routing& routing, const Matrix& gradients,
                     const Matrix& dlogits);
/// dx += dlogits·W, of this rank's rows of the stream.
void add_router_input_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& weight,
                               const Matrix& dx);
void router_weight_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& x,
                            const Matrix& dweight);

}  // namespace plumbline::training
