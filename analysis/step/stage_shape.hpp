// One pipeline stage on one tensor rank: its topics, and the questions that need several of them.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/hardware/software.hpp"
#include "analysis/step/layer_shapes.hpp"
#include "analysis/step/stage_topics.hpp"

namespace plumbline {

/// Widths are per tensor rank. Counts are elements unless said otherwise.
struct StageShape {
  std::int64_t layers = 0;  // of this stage
  /// Of its first layers, in order; layers behind them, and MTP modules, are of LayerKind().
  std::vector<AlikeLayers> kinds;
  StagePlace place;
  StreamShape stream;
  AttentionWidths attention;
  MixerShape mixer;
  BlockShape block;
  FeedForwardShape mlp;
  MixtureShape moe;
  ExpertShape expert;
  PredictedShape predicted;
  ContextShape cp;
  EndsShape ends;
  VocabularyShape vocabulary;
  DistillationShape distillation;
  NumericsShape numerics;
  ShardingShape sharding;
  OverlapShape overlap;
  RecomputationShape recomputation;
  AdapterShape adapters;
  HostStatesShape host_states;
  VisionShape vision;
  StepTraits traits;
  const Software* software = nullptr;  // of the training step; a shape made by hand for own lists has none
  Graphs graphs;                       // of another framework's step

  /// Parameters held here; they decide whether the lookup is a part of F and the output layer of F and B.
  bool holds_embedding() const { return vocabulary.split ? vocabulary.carries : place.first; }
  bool holds_output() const {
    return vocabulary.split ? vocabulary.carries && !ends.tied : place.last && !ends.shared_output;
  }
  bool embeds() const { return place.first && !vocabulary.split; }
  bool scores() const { return place.last && !vocabulary.split; }
  /// ZeRO 1 and 2 of plumbline's step: the first forward of a step gathers the stage's units, not OPT.
  bool gathers_in_first_forward() const {
    return traits.gathers_in_first_forward && overlap.param_gather &&
           (sharding.zero == 1 || sharding.zero == 2);
  }
  /// plumbline's own step (bench/training/instances.md). True with several optimizer instances, across which
  /// reduced gradients are also summed. pieces(): pieces that ZeRO cuts units into; piece_group(): the ranks
  /// that hold them.
  bool has_instances() const { return traits.shards_within_instances && sharding.optimizer_instances > 1; }
  int pieces() const {
    return has_instances() ? sharding.data / sharding.optimizer_instances : sharding.data;
  }
  Group piece_group() const { return has_instances() ? Group::optimizer_instance : Group::data; }
  bool mixture() const { return moe.experts > 0; }
  bool has_attention() const { return mixer.kind == Mixer::attention; }
  bool has_mamba() const { return mixer.kind == Mixer::mamba; }
  /// Width of what experts read and give.
  std::int64_t expert_width() const { return moe.latent > 0 ? moe.latent : stream.hidden; }
  /// MoE layer, on this rank.
  std::int64_t local_experts() const { return spreads_experts() ? expert.local : moe.experts; }
  /// True if a rank's memory and messages depend on the experts that its tokens choose.
  bool depends_on_routing() const {
    return mixture() && traits.exchanges_rows && !moe.padded &&
           (moe.capacity > 0 || moe.row_multiple > 1 || spreads_experts());
  }
  bool spreads_experts() const { return expert.local > 0; }
  /// In plumbline's own step: rows go to the ranks of their experts, which are units of their own.
  bool exchanges_rows() const { return spreads_experts() && traits.exchanges_rows; }
  /// All tokens of the ranks between which the experts are, instead.
  bool gathers_tokens() const { return exchanges_rows() && expert.dispatcher == TokenDispatcher::allgather; }
  bool folds_experts() const { return exchanges_rows() && expert.folded; }
  /// Choices of the tokens that a rank sends, and the rows that go out: one for every slice of the expert.
  std::int64_t sent_choices() const { return exchanges_rows() ? expert.sent * expert.chosen : moe.choices; }
  std::int64_t sent_rows() const { return moe.choice_rows * (folds_experts() ? expert.tensor : 1); }
  /// With separate expert sharding, results are summed with those of a shared expert, if any, over tensor
  /// ranks.
  bool sums_experts_apart() const { return folds_experts() && sharding.tensor > 1; }
  /// Modules of plumbline's own step, and elements of the matrix that makes the input of each.
  std::int64_t own_modules() const { return traits.runs_prediction_modules ? ends.prediction_modules : 0; }
  std::int64_t join_elements() const { return 2 * stream.hidden * stream.hidden / sharding.tensor; }
  /// Latent attention: input of the query product, compressed or the first norm's output.
  std::int64_t query_width() const { return attention.query_rank > 0 ? attention.query_rank : stream.hidden; }
  /// Rows of fc1's output and of the activation's.
  std::int64_t mlp_rows() const {
    if (exchanges_rows()) return expert.rows;
    return mixture() ? moe.choice_rows : stream.tokens;
  }
  /// Elements of the norms' vectors in a layer.
  std::int64_t norm_elements() const {
    return (block.norms() + predicted.more_norms) * block.norm_vectors * stream.hidden +
           predicted.query_norms + attention.query_rank + attention.kv_rank;
  }
  /// Tokens of a context-parallel chunk, two chunks per rank; all of a sequence without. Then those of a ring
  /// member's piece, whose ranks' pieces are one after the other.
  std::int64_t chunk() const { return cp.ranks > 1 ? stream.seq / cp.ranks / 2 : stream.seq; }
  std::int64_t ring_chunk() const { return chunk() * cp.head_ranks; }
  /// Of a layer of the stage, then of its modules.
  LayerKind kind_of(std::int64_t layer) const;
  /// Kind of the MTP modules in another framework's step.
  LayerKind module_kind() const;
  /// Modules that have weights of their own.
  std::int64_t weighty_modules() const {
    return ends.repeated_module && ends.prediction_modules > 0 ? 1 : ends.prediction_modules;
  }
  /// Its layers by kinds that differ in parameters and memory, in order: windows change neither.
  std::vector<AlikeLayers> alike_layers() const;
  /// The stage as if all its layers were of that kind.
  StageShape like(const LayerKind& kind) const;
  /// Layers without experts; all of them in models without.
  std::int64_t dense_layers() const;
  /// `of` one layer, a number, summed over the stage's layers; over those of its modules.
  template <class Of>
  std::int64_t over_layers(const Of& of) const {
    if (kinds.empty()) return layers * of(*this);
    std::int64_t sum = 0;
    for (const AlikeLayers& alike : alike_layers()) sum += alike.layers * of(like(alike.kind));
    return sum;
  }
  template <class Of>
  std::int64_t over_modules(const Of& of) const {
    return own_modules() == 0 ? 0 : own_modules() * of(like({}));
  }
  friend bool operator==(const StageShape&, const StageShape&) = default;
};

}  // namespace plumbline
