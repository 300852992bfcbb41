// The tensors of one stage and micro-batch in use, forward and backward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analysis/memory/stage/final_units.hpp"
#include "analysis/memory/stage/memory_replay.hpp"
#include "analysis/memory/stage/tensor_bytes.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// One action's replay: the steps of the description in its order.
class StageReplay {
 public:
  StageReplay(const StageShape& shape, ActionType type, const FinalUnits& final_units,
              ReductionUnderWay& under_way, Replay& replay);

  /// `loss`: with a teacher, true if this forward computes the loss.
  void forward(bool loss = true);
  void teacher_forward(bool loss);
  void backward();
  void backward_input();
  void backward_weight();
  void input_forward(bool first_microbatch);
  /// `another_follows`: it is not the last micro-batch.
  void vocabulary_forward(bool another_follows);
  void vocabulary_backward();
  void input_backward();

  /// Bytes that the stage's layer `layer` keeps per micro-batch for the backward, its input included.
  std::int64_t kept_until_backward(std::int64_t layer);

 private:
  void take(Category category, std::int64_t bytes) { replay_.take(category, bytes); }
  void give(Category category, std::int64_t bytes) { replay_.give(category, bytes); }
  void gather_stream();
  void release_gathered();
  /// `passing`: temporary bytes of making the partial sums.
  void sum_over_tensor_ranks(std::int64_t passing = 0);
  void sum_over_tensor_ranks(const std::function<void()>& make);
  void passing(std::int64_t bytes);
  void gathered_keys();
  void exchange_heads();
  void attention_forward();
  void attend_forward();
  void attention_backward();
  void attend_backward();
  void gather_operand() { take(Category::workspace, bytes_.stream.operand); }
  void release_operand() { give(Category::workspace, bytes_.stream.operand); }
  void take_stream_gradient();
  void give_stream_gradient();
  /// Linear layers in the order of adapted_products.
  enum Adapted : std::size_t { kQkv, kProjection, kFc1, kFc2 };
  bool adapted(Adapted which) const { return s_.adapters.own && which < adapted_; }
  /// Features of an adapter, or their gradient, freed at once; nothing without.
  void adapter(Adapted which) { passing(features(which)); }
  std::int64_t features(Adapted which) const {
    if (!adapted(which)) return 0;
    if (which == kQkv && s_.adapters.qkv_apart) return 3 * bytes_.stream.features;
    if (which == kFc1 && s_.adapters.fc1_apart) return 2 * bytes_.stream.features;
    return bytes_.stream.features;
  }
  void frozen_gradients(Adapted which, bool input);
  void adapted_input_gradient(const ProductBytes& product, Adapted which);
  void row_weight_gradient(const ProductBytes& product, Adapted which);
  void column_weight_gradient(const ProductBytes& product, Adapted which);
  void use_weight(const ProductBytes& product);
  void sum_over_tensor_ranks(const ProductBytes& product, Adapted which);
  void input_gradient(const ProductBytes& product);
  void summed_input_gradient(const ProductBytes& product);
  void weight_gradient(const ProductBytes& product);
  /// `input`: of the product's input as well.
  void both_gradients(const ProductBytes& product, Adapted which, bool input = true);

  /// `part(i)` for i from 0 to count - 1. All but the first and the last must do the same.
  template <class Part>
  void each(std::int64_t count, const Part& part);
  /// The same where that holds up to each of `cuts`, ascending, and between them.
  template <class Part>
  void each(std::int64_t count, const std::vector<std::int64_t>& cuts, const Part& part);
  /// Makes the following calls apply to a layer like the stage's layer `layer`.
  void at_layer(std::int64_t layer);

  bool joint_before() const;
  bool joint_after() const;
  void cross_entropy();
  void widen_logits();
  void round_logits_gradient();
  void distillation_loss();
  void layer_norm();
  /// `again`: recomputation; an MoE layer's counts outlive it.
  void layer_forward(bool again);
  void mlp_forward();
  void layer_output(bool into_send_buffer = false);
  void latent_forward();
  void latent_up_projection();
  void latent_input_gradient(Category gradients);
  void up_projection_weights();
  void latent_weights();
  void take_compression_gradient();
  void give_compression_gradient();
  void latent_compression_weight();
  bool norms_inputs() const { return s_.block.norms_inputs; }
  std::int64_t second_norm_output() const {
    if (!experts_) return bytes_.stream.norm_output;
    return norms_inputs() ? bytes_.stream.tensor : 0;
  }
  /// Input of a block that I keeps for W: the norm's output, the quantized stream, or the stream itself.
  std::int64_t block_input() const {
    return reads_stream() ? bytes_.stream.tensor : bytes_.stream.norm_output;
  }
  std::int64_t second_block_input() const {
    return second_reads_stream() ? bytes_.stream.tensor : second_norm_output();
  }
  /// The model's first layer where adapters alone train: its input has no gradient.
  bool is_lowest(std::int64_t layer) const { return s_.adapters.own && s_.place.first && layer == 0; }
  /// Rows from other ranks stay for a weight gradient.
  bool keeps_rows() const { return spread() && !s_.adapters.own; }
  /// Mask of the embedding that its backward reads, if it has one.
  std::int64_t embedding_mask() const { return s_.adapters.own ? 0 : bytes_.stream.mask; }
  bool reads_stream() const { return !norms_inputs() && !s_.numerics.fp8; }
  bool second_reads_stream() const { return !norms_inputs() && (experts_ || !s_.numerics.fp8); }
  void second_norm();
  /// Work done while rows are in transit; empty: none.
  using Meanwhile = std::function<void()>;
  /// `steps` where the shared expert's run alongside exchanges of rows, else nothing.
  Meanwhile if_hidden(Meanwhile steps) const {
    return s_.overlap.shared_expert ? std::move(steps) : Meanwhile();
  }
  void read_rows(Category category, const Meanwhile& meanwhile = {});
  void mixture_forward(bool again);
  void mixture_output();
  void mixture_backward();
  void mixture_backward_input();
  void shared_fc1();
  void shared_activation();
  void shared_output_gradient();
  void shared_gradients(Category category, bool kept);
  void experts_gradients(Category category);
  void shared_input_weight();
  void mixture_backward_weight(Category dy);
  void open_dispatch();
  void rows_to_experts(Category category, const Meanwhile& meanwhile);
  void rows_from_experts(Category rows, std::int64_t of_shared, const Meanwhile& after = {});
  void rows_back(Category rows, const Meanwhile& meanwhile);
  void sum_of_shared(std::int64_t of_shared);
  void sum_of_choices(std::int64_t gathered, std::int64_t of_shared);
  void gather_gradient();
  void release_gradient();
  void weights_to_tokens();
  bool sums_experts() const;
  void activation_of_experts();
  void first_gradient_of_experts();
  void layer_gradients_done();
  bool spread() const { return experts_ && s_.exchanges_rows(); }
  bool gathers() const { return experts_ && s_.gathers_tokens(); }
  bool folds() const { return experts_ && s_.folds_experts(); }
  std::int64_t kept_by_layer() const;
  void end_of_layer_backward(bool input = true);
  void recompute(std::int64_t begin, std::int64_t end);
  void layers_backward(bool weights);
  void mlp_backward(bool input);
  void mlp_backward_input(bool input);
  void mlp_backward_weight(Category dy, bool one);
  void layer_backward(std::int64_t layer);
  void layer_backward_input(std::int64_t layer);
  void layer_backward_weight(std::int64_t layer);
  void output_norm_gradients();
  void output_layer_weight();
  void output_weight_gradients();
  void modules_forward();
  void modules_backward(bool weights);
  void modules_backward_weight();
  void join_gradient(bool weights);
  void join_weight_gradient();
  void module_inputs_backward(bool last);
  std::int64_t dropped_attention_block() const;
  std::int64_t dropped_feed_forward() const;
  void offload_after(std::int64_t layer);
  void fetch_before(std::int64_t layer);
  void drop_attention_block();
  void drop_feed_forward();
  void feed_forward_again();
  void attention_block_again();
  void drop_gradient(Category category);
  void embedding_norm_forward();
  void embedding_norm_backward(Category gradient);
  void embedding_backward();
  void position_backward();
  void take_output_gradient();
  std::int64_t whole_stream() const;
  void take_own_rows();
  void gather_hidden();
  void gather_input_gradient(Category category);

  void take_stage_gradient(Category category);
  Category stage_gradient() const;
  Category embedded_gradient() const;
  std::int64_t group_size() const;
  std::int64_t groups() const;
  std::vector<std::int64_t> units_in_order_of_use(ActionType type) const;
  std::vector<std::int64_t> experts_in_order_of_use(ActionType type) const;
  std::vector<std::int64_t> layers_in_order_of_use(ActionType type) const;
  void begin_layer_use();
  void end_layer_use();
  void first_gradient_of(std::int64_t unit);
  void gradient_done(std::int64_t unit, bool is_final);
  void gradient_done(std::int64_t unit, int copies, bool is_final);
  void end_of_action();

  static constexpr Category kActivations = Category::activations;
  static constexpr Category kLogits = Category::logits;
  static constexpr Category kTeacher = Category::teacher;
  static constexpr Category kCommunication = Category::communication;
  static constexpr Category kWorkspace = Category::workspace;

  std::int64_t unit_of_layer(std::int64_t layer) const {
    if (layer >= s_.layers) return module_unit_;
    return kind_of(layer).unit;
  }
  std::int64_t pair_statistics() const { return 2 * s_.stream.rows * 4; }

  const StageShape& s_;
  /// Tensors that layers of one kind hold.
  struct KindMemory {
    LayerKind kind;
    TensorBytes bytes;
    std::int64_t unit;  // elements, padded
  };
  static std::vector<KindMemory> kinds_of(const StageShape& shape);
  const KindMemory& kind_of(std::int64_t layer) const;
  /// Where the kinds of layers change, counted from layer `begin` on; and backwards from before layer `end`.
  std::vector<std::int64_t> cuts_from(std::int64_t begin) const;
  std::vector<std::int64_t> cuts_before(std::int64_t end) const;

  const std::vector<KindMemory> kinds_;  // the first: LayerKind()
  std::vector<std::int64_t> cuts_;       // first layers of another kind than the one before
  TensorBytes bytes_;                    // of the current layer
  bool experts_;                         // which has some
  const FinalUnits final_;
  const Category kept_;             // category of a forward's kept tensors
  const std::int64_t module_unit_;  // elements, padded
  std::int64_t layer_unit_;         // of the current layer
  const std::size_t adapted_;       // linear layers of a layer
  const std::int64_t spread_unit_;  // of experts that are spread over ranks, padded
  const std::int64_t vocabulary_unit_, output_unit_;
  const std::int64_t position_unit_;
  ReductionUnderWay& under_way_;
  Replay& replay_;
  GatheredUnits values_;
  GatheredUnits expert_values_;    // if experts are spread over ranks
  bool lookup_under_way_ = false;  // whose reduce-scatter is the last that was started
};

template <class Part>
void StageReplay::each(std::int64_t count, const std::vector<std::int64_t>& cuts, const Part& part) {
  std::int64_t begin = 0;
  const auto up_to = [&](std::int64_t end) {
    each(std::max<std::int64_t>(0, std::min(end, count) - begin),
         [&, first = begin](std::int64_t i) { part(first + i); });
    begin = std::max(begin, std::min(end, count));
  };
  for (const std::int64_t cut : cuts) up_to(cut);
  up_to(count);
}

template <class Part>
void StageReplay::each(std::int64_t count, const Part& part) {
  constexpr std::int64_t kFew = 3;
  // Under a known routing no two layers are alike.
  if (count <= kFew || !s_.moe.known_rows.empty() || replay_.writes_steps()) {
    for (std::int64_t i = 0; i < count; ++i) part(i);
    return;
  }
  part(0);
  const Replay before = std::exchange(replay_, Replay());
  const std::size_t used = values_.used();
  const std::size_t experts_used = expert_values_.used();
  part(1);
  const ActionProfile one = std::exchange(replay_, before).profile();
  replay_.append(one, count - 2);
  values_.leave_out(static_cast<std::size_t>(count - 3) * (values_.used() - used));
  expert_values_.leave_out(static_cast<std::size_t>(count - 3) * (expert_values_.used() - experts_used));
  part(count - 1);
}

}  // namespace plumbline
