// The feed-forward part of an MoE layer (bench/training/mixtures.md), never in parallel with attention. In
// FP8 (bench/training/fp8.md) operands are quantized where they are made.
#include <algorithm>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// Allocates the dispatch's row counts and row weights; nothing if every rank has all experts.
void StageReplay::open_dispatch() {
  if (!spread()) return;
  take(kept_, bytes_.moe.orders);
  take(kWorkspace, bytes_.moe.repeated_weights);
  take(kWorkspace, bytes_.moe.weights_by_rank);
  give(kWorkspace, bytes_.moe.repeated_weights);
  take(kept_, bytes_.moe.row_weights);
  give(kWorkspace, bytes_.moe.weights_by_rank);
}

/// The rows of the rank's experts, in a tensor of `category` where they come from other ranks, too.
void StageReplay::rows_to_experts(Category category, const Meanwhile& meanwhile) {
  if (gathers()) {
    take(kWorkspace, bytes_.moe.group_tokens);
    take(category, bytes_.moe.own_rows);
    return give(kWorkspace, bytes_.moe.group_tokens);
  }
  take(kWorkspace, bytes_.moe.expert_rows);
  if (!spread()) return;
  take(kWorkspace, bytes_.moe.own_rows);  // by rank
  replay_.exchange();
  if (meanwhile) meanwhile();
  give(kWorkspace, bytes_.moe.expert_rows);
  take(category, bytes_.moe.own_rows);
  give(kWorkspace, bytes_.moe.own_rows);
}

/// The gradient of the stream, where anything but the experts reads all of it.
void StageReplay::gather_gradient() {
  if (!folds() || s_.moe.shared > 0) gather_stream();
}
void StageReplay::release_gradient() {
  if (!folds() || s_.moe.shared > 0) release_gathered();
}

/// Sum over the tensor ranks too; only the shared expert's result if experts have their own sharding.
/// `gathered`: sums of the group's tokens; `of_shared`: workspace of the shared expert's product.
void StageReplay::sum_of_choices(std::int64_t gathered, std::int64_t of_shared) {
  if (!folds() || s_.sharding.tensor == 1) return sum_over_tensor_ranks(std::max(gathered, of_shared));
  take(kWorkspace, gathered);
  give(kWorkspace, gathered);
  if (s_.moe.shared == 0) return;
  sum_of_shared(of_shared);
  give(kWorkspace, bytes_.stream.tensor);
}

/// Sums the shared expert's own result, which stays.
void StageReplay::sum_of_shared(std::int64_t of_shared) {
  take(kWorkspace, bytes_.stream.tensor);
  sum_over_tensor_ranks(of_shared);
}

/// Returns expert rows to the ranks of their tokens, from tensors of `rows`.
void StageReplay::rows_back(Category rows, const Meanwhile& meanwhile) {
  take(kWorkspace, bytes_.moe.own_rows);  // by rank
  give(rows, bytes_.moe.own_rows);
  take(kWorkspace, bytes_.moe.expert_rows);
  replay_.exchange();
  if (meanwhile) meanwhile();
  give(kWorkspace, bytes_.moe.own_rows);
}

/// Combines the experts' results, in tensors of `rows`. `after`: further work done while rows are in transit,
/// after the shared expert's product.
void StageReplay::rows_from_experts(Category rows, std::int64_t of_shared, const Meanwhile& after) {
  if (gathers()) {
    sum_of_choices(bytes_.moe.group_sums, of_shared);
    return give(rows, bytes_.moe.own_rows);
  }
  if (s_.overlap.shared_expert && folds() && s_.sharding.tensor > 1) {
    rows_back(rows, [&] {
      sum_of_shared(of_shared);
      if (after) after();
    });
    return give(kWorkspace, bytes_.stream.tensor + bytes_.moe.expert_rows);
  }
  if (s_.overlap.shared_expert) {
    sum_over_tensor_ranks([&] {
      rows_back(rows, [&] {
        take(kWorkspace, of_shared);
        give(kWorkspace, of_shared);
        if (after) after();
      });
    });
    return give(kWorkspace, bytes_.moe.expert_rows);
  }
  if (spread()) rows_back(rows, {});
  sum_of_choices(0, of_shared);
  give(kWorkspace, bytes_.moe.expert_rows);
}

/// The rows of the rank's experts as their products read them; if experts are spread they stay in `category`.
void StageReplay::read_rows(Category category, const Meanwhile& meanwhile) {
  rows_to_experts(s_.numerics.fp8 ? kWorkspace : category, meanwhile);
  if (!s_.numerics.fp8) return;
  take(spread() ? category : kWorkspace, bytes_.moe.read_rows);
  give(kWorkspace, bytes_.moe.made_rows);
}

/// Their gradients; choice_weights remain, or expert_weights if nothing is sent.
void StageReplay::weights_to_tokens() {
  if (!spread()) return;
  take(kWorkspace, bytes_.moe.weights_by_rank);
  give(kWorkspace, bytes_.moe.expert_weights);
  take(kWorkspace, bytes_.moe.sent_weights);
  give(kWorkspace, bytes_.moe.weights_by_rank);
  if (!folds()) return;
  take(kWorkspace, bytes_.moe.own_weights);
  give(kWorkspace, bytes_.moe.sent_weights);
  if (s_.sharding.tensor == 1) return;
  take(kWorkspace, bytes_.moe.choice_weights);
  give(kWorkspace, bytes_.moe.own_weights);
}

/// From the router to the activation output.
void StageReplay::mixture_forward(bool again) {
  gather_stream();
  take(kept_, bytes_.moe.routing + (again ? 0 : bytes_.moe.load));
  open_dispatch();
  const Meanwhile shared = if_hidden([&] {
    shared_fc1();
    shared_activation();
  });
  read_rows(keeps_rows() ? kept_ : kWorkspace, shared);
  take(kept_, bytes_.mlp.fc1);
  use_weight(bytes_.mlp.fc1_product);
  if (!shared) shared_fc1();
  if (!keeps_rows()) give(kWorkspace, bytes_.moe.read_rows);
  release_gathered();
  activation_of_experts();
  if (!shared) shared_activation();
}

/// In FP8 quantized from a tensor of the storage type.
void StageReplay::activation_of_experts() {
  take(kWorkspace, bytes_.mlp.wide_activation_output);
  take(kept_, bytes_.mlp.activation_output);
  give(kWorkspace, bytes_.mlp.wide_activation_output);
}

/// fc1 of a shared expert.
void StageReplay::shared_fc1() {
  take(kept_, bytes_.shared.weights + bytes_.shared.fc1);
  take(kWorkspace, bytes_.shared.operand);
  use_weight(bytes_.shared.fc1_product);
  give(kWorkspace, bytes_.shared.operand);
}

void StageReplay::shared_activation() {
  const std::int64_t wide = s_.numerics.fp8 ? bytes_.shared.activation : 0;
  take(kWorkspace, wide);
  take(kept_, bytes_.shared.activation_output);
  give(kWorkspace, wide);
}

void StageReplay::mixture_output() {
  take(kWorkspace, bytes_.moe.made_rows);
  use_weight(bytes_.mlp.fc2_product);
  rows_from_experts(kWorkspace, bytes_.shared.fc2_product.weight);
}

}  // namespace plumbline
