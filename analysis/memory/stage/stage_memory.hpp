// The tensors of one stage and micro-batch, and their use in forward and backward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "analysis/memory/stage/final_units.hpp"
#include "analysis/memory/stage/memory_replay.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Bytes that one product of a layer takes besides its operands in FP8 (bench/training/fp8.md); 0 in
/// the storage type.
struct ProductBytes {
  std::int64_t weight;      // ZeRO 3: its quantized weights, or their transpose; else they are held
  std::int64_t transposed;  // gradient of its output and its input, for the weight gradient
};

/// Bytes of the tensors that the description names, for one micro-batch.
struct TensorBytes {
  std::int64_t stream;      // R·h: block inputs, norm outputs, gradients of them
  std::int64_t mask;        // R·h bytes: where dropout left the stream; 0 without
  std::int64_t dropped;     // gradient of a dropout's input, as large as the stream; 0 without dropout
  std::int64_t gathered;    // T·h of a stream tensor over the tensor ranks; 0 without sequence parallelism
  std::int64_t statistics;  // of one norm
  std::int64_t qkv;
  std::int64_t normed;     // queries and keys after norms of their own, with the statistics; 0 without
  std::int64_t attention;  // T·q
  std::int64_t
      lse;  // with the tensors that unfused attention and its dropout, or attention of exchanged heads, keep
            // with it
  std::int64_t scores;      // of unfused attention, as long as they or their gradient are needed; else 0
  std::int64_t whole_keys;  // keys and values of whole sequences; 0 if a rank has its own alone
  std::int64_t part_keys;   // of one sequence
  std::int64_t own_keys;    // of the rank's chunks
  std::int64_t block;       // round a ring: results of a chunk, or gradients of its queries; else 0
  std::int64_t block_statistics;
  std::int64_t block_keys;  // gradients of a chunk's keys and values
  std::int64_t heads;       // exchanged for sequences: attention's output by head; else 0
  std::int64_t fc1;
  std::int64_t activation;  // T·F
  // MoE layers only; else 0.
  std::int64_t routing;          // router logits and the four numbers of every choice
  std::int64_t load;             // one number for every expert, where the global batch is balanced; else 0
  std::int64_t rows_tokens;      // of these, the tokens of the experts' rows
  std::int64_t expert_rows;      // T·k·h
  std::int64_t expert_weights;   // gradient of the rows' weights, two numbers each
  std::int64_t router_gradient;  // T·E
  // Experts spread over ranks only; else 0.
  std::int64_t own_rows;  // N'·h
  /// Two numbers for every one of these rows; with gathered tokens also one for every choice; with rows sent
  /// to several ranks also one for every row sent.
  std::int64_t orders;
  std::int64_t row_weights;       // one
  std::int64_t repeated_weights;  // one of every row that goes out, where it goes to several ranks; else 0
  std::int64_t sent_weights;      // one of every row that has come back
  std::int64_t own_weights;  // one of every choice that is sent, where experts are cut on their own; else 0
  std::int64_t choice_weights;   // one of every choice
  std::int64_t weights_by_rank;  // one of every row by rank, or of every choice of the group
  std::int64_t group_tokens;     // gathered: of the group; else 0
  std::int64_t group_sums;       // sums of their rows on a rank
  // Shared expert.
  std::int64_t shared_weights;
  std::int64_t shared_products;  // gradient of the weights, two numbers each
  std::int64_t shared_gate;      // gradient of the gate
  std::int64_t shared_fc1;
  std::int64_t shared_activation;
  // Latent attention.
  std::int64_t compressed;             // R·C: before the norms; after them; its gradient
  std::int64_t compressed_statistics;  // of both norms
  std::int64_t compressed_gathered;    // T·C; 0 without sequence parallelism
  std::int64_t own_part_of_keys;       // T·u, or its gradient; in FP8 with the values' T·a
  std::int64_t logits;
  std::int64_t fp32_logits;         // the copy that the loss works on; 0 if it works on the logits
  std::int64_t loss;                // statistics of the loss
  std::int64_t joint;               // message of teacher and student
  std::int64_t teacher_stream;      // R·h_T
  std::int64_t teacher_gathered;    // T·h_T; 0 without sequence parallelism
  std::int64_t teacher_logits;      // kept until the loss
  std::int64_t partial;             // of a product that is summed over tensor ranks
  std::int64_t piece;               // its share after a reduce-scatter, before it is rounded
  std::int64_t compressed_partial;  // the same two of latent attention's gradients
  std::int64_t compressed_piece;
  std::int64_t shard_statistics;  // vocab_parallel: three rows of every shard, and the factors of this one
  std::int64_t output_gradient;   // vocab_parallel: dX, fp32
  std::int64_t target_rows;       // vocab_parallel, one barrier: kept where ZeRO 3 drops the shard; else 0
  // Operands of a layer's products: in the storage type, or quantized with their scales.
  std::int64_t norm_output;
  std::int64_t activation_output;
  std::int64_t operand;  // norm output or gradient of the stream, gathered; 0 without sequence parallelism
  // Quantized tensors and their sources; 0 without FP8.
  std::int64_t wide_norm_output;
  std::int64_t wide_activation_output;
  std::int64_t quantized_stream;
  std::int64_t quantized_attention;
  std::int64_t quantized_fc1;
  std::int64_t quantized_qkv;
  // Latent attention: gradients, operands of the products that read the compressed form, and the first of
  // these gathered.
  std::int64_t quantized_compression;
  std::int64_t quantized_queries;
  std::int64_t quantized_keys_values;
  std::int64_t query_input;
  std::int64_t keys_values_input;
  std::int64_t compression_gathered;
  ProductBytes qkv_product;  // in latent attention the compressing product
  ProductBytes queries_product;
  ProductBytes keys_values_product;
  ProductBytes projection_product;
  ProductBytes fc1_product;
  ProductBytes fc2_product;
  // MoE layer: expert rows as made and as products read them, and the rows kept from the forward on.
  std::int64_t made_rows;
  std::int64_t read_rows;
  std::int64_t kept_rows;
  std::int64_t fc1_gradient;  // as products read it
  std::int64_t
      shared_operand;  // input of its shared expert, or the gradient of its output, quantized; else 0
  std::int64_t shared_activation_output;
  std::int64_t shared_fc1_gradient;
  ProductBytes shared_fc1_product;
  ProductBytes shared_fc2_product;

  explicit TensorBytes(const StageShape& s);
};

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
  void gather_operand() { take(Category::workspace, bytes_.operand); }
  void release_operand() { give(Category::workspace, bytes_.operand); }
  void take_stream_gradient();
  void give_stream_gradient();
  void use_weight(const ProductBytes& product);
  void sum_over_tensor_ranks(const ProductBytes& product);
  void input_gradient(const ProductBytes& product);
  void summed_input_gradient(const ProductBytes& product);
  void weight_gradient(const ProductBytes& product);
  void both_gradients(const ProductBytes& product);

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
  std::int64_t second_norm_output() const { return experts_ ? bytes_.stream : bytes_.norm_output; }
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
  void first_gradient_of_experts();
  void layer_gradients_done();
  bool spread() const { return experts_ && s_.exchanges_rows(); }
  bool gathers() const { return experts_ && s_.gathers_tokens(); }
  bool folds() const { return experts_ && s_.folds_experts(); }
  std::int64_t kept_by_layer() const;
  void end_of_layer_backward();
  void recompute(std::int64_t begin, std::int64_t end);
  void layers_backward(bool weights);
  void mlp_backward();
  void mlp_backward_input();
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
  /// What layers of one kind hold.
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
  const std::int64_t spread_unit_;  // of experts that are spread over ranks, padded
  const std::int64_t vocabulary_unit_;
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
