// MTP modules, after the layers of a last stage (bench/training/mtp.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// From the final norm's output to those of the modules' norms.
void StageReplay::modules_forward() {
  const std::int64_t modules = s_.own_modules();
  if (modules == 0) return;
  values_.begin_use();
  for (std::int64_t i = 0; i < modules; ++i) {
    take(kActivations, bytes_.stream.tensor);
    gather_stream();  // the whole lookup
    if (i + 1 == modules) values_.end_use();
    release_gathered();
    take(kActivations, bytes_.stream.mask);
  }
  for (std::int64_t i = 0; i < modules; ++i) {
    at_layer(s_.layers + i);
    begin_layer_use();
    take(kActivations, 2 * bytes_.stream.tensor + pair_statistics());
    take(kActivations, bytes_.stream.tensor);  // x
    take(kWorkspace, 2 * bytes_.stream.gathered);
    sum_over_tensor_ranks();
    give(kWorkspace, 2 * bytes_.stream.gathered);
    layer_forward(false);
    layer_output();
    if (s_.recomputation.granularity == Recompute::full) give(kActivations, kept_by_layer());
    end_layer_use();
    take(kActivations, bytes_.stream.tensor + bytes_.stream.statistics);  // norm
  }
}

/// From the gradient of the layer's input to that of the pair, which stays.
void StageReplay::join_gradient(bool weights) {
  gather_stream();
  take(kWorkspace, 2 * bytes_.stream.tensor);
  take(kWorkspace, 2 * bytes_.stream.partial);
  take(kWorkspace, 2 * bytes_.stream.piece);
  give(kWorkspace, 2 * bytes_.stream.piece);
  give(kWorkspace, 2 * bytes_.stream.partial);
  if (weights) join_weight_gradient();
  release_gathered();
}

void StageReplay::join_weight_gradient() {
  take(kWorkspace, 2 * bytes_.stream.gathered);
  give(kWorkspace, 2 * bytes_.stream.gathered);
  give(kActivations, 2 * bytes_.stream.tensor);
}

/// The norms of the pair, and the lookup. `last`: of the action's.
void StageReplay::module_inputs_backward(bool last) {
  give(kActivations, bytes_.stream.tensor);  // embedded
  give(kActivations, pair_statistics());
  give(kWorkspace, 2 * bytes_.stream.tensor);
  give(kActivations, bytes_.stream.mask);
  gather_stream();
  if (lookup_under_way_) under_way_.finish(replay_);  // of the same unit
  first_gradient_of(vocabulary_unit_);
  gradient_done(vocabulary_unit_, final_.lookup && last);
  lookup_under_way_ = true;
  release_gathered();
  give(kWorkspace, bytes_.stream.tensor);
}

/// All modules of a B (`weights`) or an I, last to first; gradients towards the output layer's input exist
/// already.
void StageReplay::modules_backward(bool weights) {
  constexpr std::int64_t kBehindAnother = 1;
  for (std::int64_t i = s_.own_modules(); i-- > 0;) {
    at_layer(s_.layers + i);
    take(weights ? kWorkspace : kActivations, bytes_.stream.tensor);  // G
    give(kWorkspace, bytes_.stream.tensor);                           // dnorm
    const bool output = weights && !s_.ends.defers_output_gradient;   // H, which the output layer's W reads
    give(kActivations, (output ? 2 : 1) * bytes_.stream.tensor + bytes_.stream.statistics);
    begin_layer_use();
    if (s_.recomputation.granularity == Recompute::full) {
      layer_forward(true);
      take(kActivations, bytes_.stream.mask);  // of the MLP, whose result is not wanted
    }
    if (weights) layer_backward(kBehindAnother);
    if (!weights) layer_backward_input(kBehindAnother);
    join_gradient(weights);
    end_layer_use();
    if (weights) layer_gradients_done();
    if (!weights) take(kWorkspace, bytes_.stream.tensor);
    module_inputs_backward(i == 0);
  }
}

void StageReplay::modules_backward_weight() {
  constexpr std::int64_t kBehindAnother = 1;
  for (std::int64_t i = s_.own_modules(); i-- > 0;) {
    at_layer(s_.layers + i);
    layer_backward_weight(kBehindAnother);
    gather_stream();
    join_weight_gradient();
    release_gathered();
    give(kActivations, bytes_.stream.tensor);  // gradient of the layer's input
    layer_gradients_done();
  }
}

}  // namespace plumbline
