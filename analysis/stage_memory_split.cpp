// The backward in two parts: input gradients now, weight gradients later (I and W).
#include "analysis/stage_memory.hpp"

namespace plumbline {
namespace {

constexpr Category kActivations = Category::activations;
constexpr Category kWorkspace = Category::workspace;
constexpr Category kCommunication = Category::communication;

}  // namespace

void StageReplay::layer_backward_input(std::int64_t layer) {
  // With dropout the weights' gradients want what it left of dy and dmid, which then go themselves.
  const bool received = layer == s_.layers - 1 && !s_.last;
  drop_gradient(kActivations);
  gather_stream();
  take(s_.swiglu ? kWorkspace : kActivations, bytes_.activation);  // dact
  release_gathered();
  if (s_.swiglu) {
    take(kActivations, bytes_.fc1);  // dfc1
    give(kWorkspace, bytes_.activation);
  }
  give(kActivations, bytes_.fc1);
  take(kWorkspace, bytes_.stream);  // dn
  sum_over_tensor_ranks();
  take(kActivations, bytes_.stream);  // dmid
  give(kWorkspace, bytes_.stream);
  give(kActivations, bytes_.stream + bytes_.statistics);           // x2 and the second norm's statistics
  give(received ? kCommunication : kActivations, bytes_.dropped);  // dy
  if (s_.recompute == Recompute::selective) {
    take(kActivations, bytes_.attention);
    take(kActivations, bytes_.lse);
    passing_scores();
  }
  drop_gradient(kActivations);
  gather_stream();
  take(kWorkspace, bytes_.attention);  // dattn
  release_gathered();
  take(kActivations, bytes_.qkv);  // dqkv
  passing_scores();                // their gradient
  give(kWorkspace, bytes_.attention);
  give(kActivations, bytes_.lse + bytes_.qkv);
  take(kWorkspace, bytes_.stream);  // dn
  sum_over_tensor_ranks();
  if (layer > 0) {  // dx; a first layer behind another rank writes into the send buffer
    take(kActivations, bytes_.stream);
  } else if (s_.previous_here) {
    take(kCommunication, bytes_.stream);
  } else if (s_.first) {
    take(kWorkspace, bytes_.stream);
  }
  give(kWorkspace, bytes_.stream);
  give(kActivations, bytes_.stream + bytes_.statistics);  // x and the first norm's statistics
  give(kActivations, bytes_.dropped);                     // dmid
}

void StageReplay::backward_input() {
  if (s_.last) {
    if (s_.scores()) {
      round_logits_gradient();
      values_.begin_use();
      take(kWorkspace, bytes_.stream);  // dnorm
      sum_over_tensor_ranks();
      values_.end_use();
    } else {
      take_output_gradient();
    }
    take_stage_gradient(kActivations);
    give(kWorkspace, bytes_.stream);
    give(kActivations, bytes_.statistics + bytes_.stream);  // final input
  }
  layers_backward(false);
  if (s_.first) give(kActivations, bytes_.mask);  // dx is dropped in place
  if (s_.embeds()) {
    embedding_backward();
    give(kWorkspace, bytes_.stream);  // dx
  } else if (s_.first) {
    position_backward();  // dx is kept for IB
  }
  end_of_action();
}

void StageReplay::layer_backward_weight(std::int64_t layer) {
  const bool received = layer == s_.layers - 1 && !s_.last && !s_.hidden_dropout;
  gather_stream();
  first_gradient_of(layer_unit_);
  release_gathered();
  give(kActivations, bytes_.activation);
  give(received ? kCommunication : kActivations, bytes_.stream);  // dy, or dropped
  gather_stream();
  release_gathered();
  give(kActivations, bytes_.fc1 + bytes_.stream);  // dfc1, second norm output
  gather_stream();
  release_gathered();
  give(kActivations, bytes_.attention + bytes_.stream);  // attention output, dmid or dropped
  gather_stream();
  release_gathered();
  give(kActivations, bytes_.qkv + bytes_.stream);  // dqkv, first norm output
  gradient_done(layer_unit_, final_.layers);
}

void StageReplay::backward_weight() {
  if (s_.scores()) {
    output_layer_weight();
    give(kActivations, bytes_.stream);  // final norm output
    gradient_done(vocabulary_unit_, final_.output);
  }
  for (std::int64_t layer = s_.layers - 1; layer >= 0; --layer) layer_backward_weight(layer);
  end_of_action();
}

}  // namespace plumbline
