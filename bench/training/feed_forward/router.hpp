// Routing of a layer's tokens to experts, and its gradients. bench/training/mixtures.md lists what is
// allocated when.
#pragma once

#include "bench/training/feed_forward/routing.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Routes all tokens, x (T, h). `weight` (E, h); `bias` (1, E) fp32, or empty; `layer`: its number in the
/// model. If `routing` already has a load, the micro-batch has been forward before.
void make_routing(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  std::int64_t layer, Routing& routing);
/// The logits' gradient from the weights', the fp32 numbers at the begin of `gradients`: N by row, where
/// every tensor rank has seen only its own columns, or, if experts have their own sharding, T·k by choice.
void logits_backward(const TrainingContext& context, const Routing& routing, const Matrix& gradients,
                     const Matrix& dlogits);
/// dx += dlogits·W, of this rank's rows of the stream.
void add_router_input_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& weight,
                               const Matrix& dx);
void router_weight_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& x,
                            const Matrix& dweight);

}  // namespace plumbline::training
