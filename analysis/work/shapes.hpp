// The sizes of one pipeline stage on one tensor rank, in the notation of bench/training/README.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/software.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Part of a stage in distillation with another model (bench/training/distillation.md). The same on the
/// student's and on the teacher's stage.
struct DistillationShape {
  bool on = false;      // there is a teacher
  bool joint = false;   // teacher and student travel in one message per hop
  bool hidden = false;  // the final norm output is kept until the loss instead of the logits
  bool unfused = false;
  bool language_model = false;      // its loss is part of the loss
  bool teacher_normed = false;      // the rows of the teacher's output layer are divided by their lengths
  std::int64_t teacher_hidden = 0;  // h_T
  std::int64_t student_hidden = 0;  // h
  std::int64_t cached_size = 0;     // bytes of one element of kept teacher logits
  friend bool operator==(const DistillationShape&, const DistillationShape&) = default;
};

/// Embedding and output layer split over all ranks of a model (bench/training/vocabulary.md). The ranks named
/// here are the stage's own.
struct VocabularyShape {
  bool split = false;
  bool two_barriers = false;    // dX is computed and summed in T; with one barrier in S
  bool carries = false;         // the lowest stage of its rank: holds the shards, does IF, S, T and IB
  bool first_rank = false;      // the rank has the first stage
  bool last_rank = false;       // the rank has the last one
  bool split_backward = false;  // the first stage has I and W instead of B
  int shards = 1;               // N: ranks of a model
  friend bool operator==(const VocabularyShape&, const VocabularyShape&) = default;
};

/// Neighbouring layers with the same attention.
struct AlikeLayers {
  std::int64_t layers = 0;
  std::int64_t window = 0;  // keys that a query sees, less than a sequence has; 0: all up to itself
  friend bool operator==(const AlikeLayers&, const AlikeLayers&) = default;
};

/// Rows of a layer's experts under a known routing.
struct KnownRows {
  std::int64_t sent = 0;  // N: of the rank's own tokens
  std::int64_t here = 0;  // N': of its own experts, if they are spread over ranks
  friend bool operator==(const KnownRows&, const KnownRows&) = default;
};

/// Experts of a layer on one rank, if they are spread over ranks (Megatron-LM; arXiv:2504.14960; plumbline's
/// own step: bench/training/expert_parallel.md). An expert is sharded over `tensor` ranks. `ranks` such sets
/// hold the experts of a layer, and `copies` of these are replicas.
struct ExpertShape {
  int ranks = 1;
  int tensor = 1;
  int copies = 1;
  bool sharded = false;  // their optimizer states, over the copies of an instance
  int state_shards = 1;  // those copies; 1 if states are not sharded
  std::int64_t local =
      0;  // experts of a rank; 0: none, or all of them on every rank and cut as plumbline cuts them
  /// plumbline's step: experts are sharded independently of tensor ranks, and ranks of one expert group
  /// exchange tokens.
  bool folded = false;
  int group = 1;
  std::int64_t sent = 0;  // tokens of this rank that are given to experts
  std::int64_t rows =
      0;  // rows that its own experts work on, spread evenly; of plumbline's step N' of the first rank
  std::int64_t chosen = 0;  // experts of a token
  std::int64_t most_nodes =
      0;  // nodes that a token's experts are on at most, where the router limits them; 0: any
  std::int64_t ffn = 0;
  std::int64_t fc1 = 0;
  TokenDispatcher dispatcher = TokenDispatcher::allgather;
  bool overlapped = false;  // exchanges run alongside the computation of another micro-batch
  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

/// Share of launches that another framework captures as CUDA graphs, by part.
struct Graphs {
  double layer = 0;   // of a layer without an MoE layer's routing and experts
  double router = 0;  // of the routing
  bool step = false;  // everything
  friend bool operator==(const Graphs&, const Graphs&) = default;
};

/// Switches of layers that are predicted and not executed (core/config/predicted_switches.hpp), of a layer on
/// this tensor rank.
struct PredictedShape {
  bool projection_bias = false;    // of attention's output projection, linear_bias included
  bool feed_forward_bias = false;  // of the MLP's or the experts' projections, likewise
  bool router_bias = false;
  std::int64_t more_norms = 0;   // of attention's and the MLP's results, besides those of their inputs
  std::int64_t query_norms = 0;  // elements of the norms of queries and keys
  std::int64_t vectors = 0;      // elements of sinks
  std::int64_t scalars = 0;      // of an MLP's activation
  friend bool operator==(const PredictedShape&, const PredictedShape&) = default;
};

/// Widths are per tensor rank. Counts are elements unless said otherwise.
struct StageShape {
  std::int64_t tokens = 0;    // T = micro_batch_size · seq_length / context_parallel_size
  std::int64_t rows = 0;      // R: rows of the residual stream, T or T/t with sequence parallelism
  std::int64_t batch = 0;     // sequences of a micro-batch
  std::int64_t seq = 0;       // tokens of a sequence
  std::int64_t hidden = 0;    // h
  std::int64_t head_dim = 0;  // d
  std::int64_t heads = 0;     // query heads of this tensor rank
  std::int64_t kv_heads = 0;  // key/value heads of this tensor rank, at least one
  std::int64_t q = 0;         // heads · d
  std::int64_t k = 0;         // kv_heads · d
  std::int64_t ffn = 0;       // F
  std::int64_t fc1 = 0;       // f: 2F with a gate, else F
  std::int64_t experts =
      0;  // E, of an MoE model (bench/training/mixtures.md), whose F is that of an expert; 0: none
  std::int64_t choices = 0;  // T·k: of the tokens
  std::int64_t choice_rows =
      0;  // N: rows at experts for the tokens that it sends, equally many without a capacity
  std::int64_t capacity = 0;      // rows of an expert at most; 0: any number
  bool padded = false;            // and always
  std::int64_t row_multiple = 1;  // which they are filled up to: 16 in FP8, of plumbline's step
  std::int64_t shared = 0;        // Fs: of an MoE layer's shared expert; 0: none
  bool shared_gated = true;       // its results are weighted by a gate
  std::int64_t dense_layers = 0;  // MoE models: number of the stage's first layers without experts
  std::int64_t dense_ffn = 0;     // F of those
  bool global_balance =
      false;                 // tokens of every expert are counted over all copies, micro-batch by micro-batch
  bool expert_bias = false;  // routers have a number per expert that no gradient trains
  std::int64_t vocab = 0;    // v: padded vocabulary of this tensor rank, or of its shard
  std::int64_t positions = 0;     // rows of the learned position table, 0: there is none
  std::int64_t layers = 0;        // of this stage
  std::int64_t norm_rows = 1;     // n: fp32 statistics per token and norm
  std::int64_t norm_vectors = 1;  // w: weight vectors per norm
  bool first = false;             // of its route: holds the embedding
  bool last = false;              // of its route: holds the final norm, the output layer and the loss
  bool single = false;            // the only stage of its route
  bool previous_here = false;     // the previous stage of the route is on the same rank
  bool next_here = false;         // the next stage of the route is on the same rank
  bool shared_output = false;     // the output layer is the embedding of a first stage on the same rank
  bool tied = false;
  bool qkv_bias = false;
  bool linear_bias = false;
  bool rotary = true;
  std::int64_t rotated = 0;  // elements of a head that rotary embeddings turn
  // Latent attention (bench/training/latent.md), whose d is that of queries and keys; 0: none.
  std::int64_t query_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t value_dim = 0;  // a head of values
  bool swiglu = true;          // or another activation with a gate
  Block block = Block::sequential;
  bool qk_norm = false;  // of queries and keys, head by head
  bool embedding_norm = false;
  bool scaled_embedding = false;
  bool output_bias = false;      // of the output layer
  bool normed_output = false;    // the output layer's rows are divided by their lengths
  bool normed_residual = false;  // blocks add to a multiple of their norm's output
  bool block_positions = false;  // a token has two positions
  std::int64_t prefix = 0;       // first tokens of a sequence that see each other
  bool layer_norm = false;
  bool shared_kv = false;          // fewer key/value heads than tensor ranks
  bool sequence_parallel = false;  // in effect: t > 1
  bool tensor_overlap = false;     // collectives of the layers' products alongside them; sequence parallel
  bool sums_in_fp32 = true;        // partial sums of tensor ranks travel in fp32, else in the storage type
  bool unfused_attention = false;
  bool cuda = false;               // backend cuda, whose attention has a scratch of another size
  bool deterministic = false;      // and of yet another where it gives the same bits every time
  bool hidden_dropout = false;     // p_h > 0: masks are kept (bench/training/dropout.md)
  bool attention_dropout = false;  // p_a > 0
  bool loss_in_fp32 = false;       // the loss works on an fp32 copy of 16-bit logits
  bool fp8 = false;                // linear layers in FP8 (bench/training/fp8.md)
  bool fp8_tensorwise = false;     // scales belong to tensors, no history is kept
  bool framework_fp8 = false;      // the same for another framework's step, whose fp8 is false
  Graphs graphs;                   // of another framework's step
  bool fp8_weights = false;        // which holds and gathers weights of layers in FP8
  bool fp4 = false;                // the same with operands of 4 bits instead (NVFP4)
  int fp8_forms = 2;  // of an operand of such products: its rows, and its columns where they need those
  double operand_bytes = 1;  // of an element of them, with the scales of NVFP4's blocks
  int stage = 0;             // of the schedule, all routes counted
  int route = 0;
  int tensor = 1;        // t
  int data = 1;          // D: ranks with the same parameters, those that share a sequence included
  int zero = 0;          // Z: the ZeRO stage in effect, 0 when D = 1
  int state_shards = 1;  // ranks that it cuts over: D ÷ optimizer_instances
  int optimizer_instances = 1;
  int secondary_shards =
      1;  // ZeRO 3: ranks that have a second copy of the parameters between them; 1: there is none
  bool overlap_grad_reduce = true;    // gradients are reduced alongside the backwards
  bool overlap_param_gather = false;  // parameters are gathered one unit ahead of their use
  bool defers_output_gradient =
      false;                    // its last stage has I, all but the output layer's weight gradient, and W
  bool receives_ahead = false;  // a message's buffer is there one computation before its RECV
  bool runs_pairs = false;      // overlapped pairs run together, the one behind the other's exchanges of rows
  bool hides_shared_expert = false;  // its products run alongside exchanges of rows
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 1;  // full recomputation: layers of a group
  RecomputeModules recomputed;        // selective recomputation of plumbline's own step
  std::int64_t offloaded =
      0;  // of the stage's first layers: their activations are on the host until the backward
  std::int64_t adapter_rank = 0;  // LoRA: r of the adapters, which alone train; 0: everything trains
  LoraTargets adapted = LoraTargets::attention;
  std::int64_t fp8_history = 0;  // largest values kept of every slot; 0 without delayed scaling
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  DType type = DType::bf16;  // storage type
  DType grad_type = DType::fp32;
  int context = 1;  // CP: ranks that share a sequence
  CpCommType cp_comm_type = CpCommType::p2p;
  int head_ranks = 1;  // of them, those that exchange heads with each other; the rest is a ring
  bool cp_load_balance = true;
  double attention_share = 1;  // of packed documents' pairs of tokens in whole sequences'
  /// Framework of the training step; nullptr: plumbline's own, which everything else here describes.
  const Software* framework = nullptr;
  DistillationShape distillation;
  VocabularyShape vocabulary;
  std::int64_t prediction_modules = 0;  // MTP modules on the last stage (bench/training/mtp.md)
  bool embedding_copy = false;          // which look them up in a copy of the embedding, of no other use
  bool shared_lookup = false;           // or in the embedding of a first stage on the same rank
  ExpertShape expert;
  PredictedShape predicted;
  std::vector<KnownRows>
      known_rows;  // by layer of the stage, then by module, of plumbline's step with a known routing; else
                   // empty
  std::vector<AlikeLayers> windows;  // of the stage's layers, in order; empty: no window anywhere

  /// Parameters held here; they decide whether the lookup is a part of F and the output layer of F and B.
  bool holds_embedding() const { return vocabulary.split ? vocabulary.carries : first; }
  bool holds_output() const {
    return vocabulary.split ? vocabulary.carries && !tied : last && !shared_output;
  }
  bool embeds() const { return first && !vocabulary.split; }
  bool scores() const { return last && !vocabulary.split; }
  /// ZeRO 1 and 2 of plumbline's step: the first forward of a step gathers the stage's units, not OPT.
  bool gathers_in_first_forward() const {
    return framework == nullptr && overlap_param_gather && (zero == 1 || zero == 2);
  }
  /// plumbline's own step (bench/training/instances.md). True with several optimizer instances, across which
  /// reduced gradients are also summed. pieces(): pieces that ZeRO cuts units into; piece_group(): the ranks
  /// that hold them.
  bool has_instances() const { return framework == nullptr && optimizer_instances > 1; }
  int pieces() const { return has_instances() ? data / optimizer_instances : data; }
  Group piece_group() const { return has_instances() ? Group::optimizer_instance : Group::data; }
  /// The first use of a unit in a step gathers it from all ranks, later ones from fewer
  /// (bench/training/hpz.md).
  bool keeps_secondary_shards() const { return secondary_shards > 1; }
  /// Norms of a layer, those of queries and keys not counted.
  std::int64_t layer_norms() const { return block == Block::parallel_one_norm ? 1 : 2; }
  bool parallel() const { return block != Block::sequential; }
  bool mixture() const { return experts > 0; }
  /// MoE layer, on this rank.
  std::int64_t local_experts() const { return spreads_experts() ? expert.local : experts; }
  /// Rows of an expert that `chosen` tokens have chosen (Megatron-LM, apply_router_token_dropping).
  std::int64_t rows_of_expert(std::int64_t chosen) const {
    std::int64_t kept = chosen;
    if (capacity > 0) kept = padded ? capacity : std::min(chosen, capacity);
    return (kept + row_multiple - 1) / row_multiple * row_multiple;
  }
  /// True if a rank's memory and messages depend on the experts that its tokens choose.
  bool depends_on_routing() const {
    return mixture() && framework == nullptr && !padded &&
           (capacity > 0 || row_multiple > 1 || spreads_experts());
  }
  bool spreads_experts() const { return expert.local > 0; }
  /// In plumbline's own step: rows go to the ranks of their experts, which are units of their own.
  bool exchanges_rows() const { return spreads_experts() && framework == nullptr; }
  /// All tokens of the ranks between which the experts are, instead.
  bool gathers_tokens() const { return exchanges_rows() && expert.dispatcher == TokenDispatcher::allgather; }
  bool folds_experts() const { return exchanges_rows() && expert.folded; }
  /// Choices of the tokens that a rank sends, and the rows that go out: one for every slice of the expert.
  std::int64_t sent_choices() const { return exchanges_rows() ? expert.sent * expert.chosen : choices; }
  std::int64_t sent_rows() const { return choice_rows * (folds_experts() ? expert.tensor : 1); }
  /// With separate expert sharding, results are summed with those of a shared expert, if any, over tensor
  /// ranks.
  bool sums_experts_apart() const { return folds_experts() && tensor > 1; }
  bool latent() const { return kv_rank > 0; }
  /// Modules of plumbline's own step, and elements of the matrix that makes the input of each.
  std::int64_t own_modules() const { return framework == nullptr ? prediction_modules : 0; }
  std::int64_t join_elements() const { return 2 * hidden * hidden / tensor; }
  /// Elements per token of all heads' values, and of attention's result; of queries, keys and values side by
  /// side.
  std::int64_t values() const { return latent() ? heads * value_dim : k; }
  std::int64_t attended() const { return latent() ? heads * value_dim : q; }
  std::int64_t qkv() const { return q + k + values(); }
  /// Latent attention: width of the compressed input of queries, keys and values with the keys' rotated
  /// elements, and width of the keys' other elements. Input of the query product: compressed, or the first
  /// norm's output.
  std::int64_t query_width() const { return query_rank > 0 ? query_rank : hidden; }
  std::int64_t compressed() const { return query_rank + kv_rank + rotated; }
  std::int64_t own_keys() const { return heads * (head_dim - rotated); }
  /// Rows of fc1's output and of the activation's.
  std::int64_t mlp_rows() const {
    if (exchanges_rows()) return expert.rows;
    return mixture() ? choice_rows : tokens;
  }
  bool frozen() const { return adapter_rank > 0; }
  /// Elements of the norms' vectors in a layer.
  std::int64_t norm_elements() const {
    return (layer_norms() + predicted.more_norms) * norm_vectors * hidden + predicted.query_norms +
           query_rank + kv_rank;
  }
  /// Tokens of a context-parallel chunk, two chunks per rank; all of a sequence without.
  std::int64_t chunk() const { return context > 1 ? seq / context / 2 : seq; }
  /// Size of the K/V ring: CP ranks, or groups that exchanged heads. Then the tokens of a group's piece,
  /// which are the pieces of its ranks one after the other.
  int ring() const { return context / head_ranks; }
  std::int64_t ring_chunk() const { return chunk() * head_ranks; }
  /// Index, among 2·`ranks` pieces of a sequence, of the earlier (0) or later (1) piece of rank `rank`.
  std::int64_t piece_of(int ranks, int rank, int place) const {
    if (!cp_load_balance) return std::int64_t{2} * rank + place;
    return place == 0 ? rank : std::int64_t{2} * ranks - 1 - rank;
  }
  /// Window of the stage's layer `layer`, as in AlikeLayers.
  std::int64_t window_of(std::int64_t layer) const;
  /// The stage as if the feed-forward layers of all its layers were like that of layer `layer`.
  StageShape like_layer(std::int64_t layer) const;
  /// `of` one layer, a number, summed over the stage's layers; over those of its modules.
  template <class Of>
  std::int64_t over_layers(const Of& of) const {
    if (dense_layers == 0) return layers * of(*this);
    return dense_layers * of(like_layer(0)) + (layers - dense_layers) * of(like_layer(dense_layers));
  }
  template <class Of>
  std::int64_t over_modules(const Of& of) const {
    return own_modules() == 0 ? 0 : own_modules() * of(like_layer(layers));
  }
  std::int64_t e() const { return size_of(type); }
  std::int64_t g() const { return size_of(grad_type); }
  /// Type of the partial sums of tensor ranks: fp32, rounded into the storage type afterwards, or the storage
  /// type.
  DType sum_type() const { return sums_in_fp32 ? DType::fp32 : type; }
  bool rounds_sums() const { return size_of(sum_type()) > e(); }
  friend bool operator==(const StageShape&, const StageShape&) = default;
};

/// The traits of the framework that `software` names; nullptr: plumbline's own training step. Throws
/// InputError with the known names.
const Software* framework_of(const RunConfig& config);

/// Reason why a framework's MoE model is not predicted, or empty: software without one, and sharded
/// gradients.
std::optional<std::string> why_mixture_unlisted(const RunConfig& config, const Software& framework);

/// Shapes of all stages of the schedule, every route of it, by stage number.
std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule);
/// The same with a framework's traits instead of the named one's.
std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule,
                                     const Software* framework);
/// Run of the teacher (which must exist) as if it were the model: the basis of its shapes and its routing.
RunConfig evaluated_teacher(const RunConfig& config);
/// Shapes of the teacher's stages, as evaluated forward only: neither ZeRO nor recomputation, dropout or
/// FP8. Empty without one.
std::vector<StageShape> teacher_shapes(const RunConfig& config, const Schedule& schedule);
/// Shapes of a model split into `stages`, each on a rank of its own; the vocabulary is not split over them.
std::vector<StageShape> stage_shapes(const RunConfig& config, int stages);

/// Parameters of a stage on one tensor rank, by owner, without the padding of ZeRO.
struct StageParameters {
  std::int64_t layers = 0;     // all layers together
  std::int64_t embedding = 0;  // word embeddings
  std::int64_t positions = 0;  // learned positions
  std::int64_t embedding_norm = 0;
  std::int64_t final_norm = 0;
  std::int64_t output = 0;  // output layer; 0 when it is the embedding itself
  std::int64_t total() const { return layers + embedding + positions + embedding_norm + final_norm + output; }
};
/// Elements of a layer's expert matrices on one rank, with experts spread over ranks.
std::int64_t spread_expert_matrices(const StageShape& shape);
/// Feed-forward elements of a layer on one tensor rank; in MoE layers the router and all experts, or the
/// rank's own. Where a stage's layers differ (dense_layers), those of an MoE layer; StageShape::like_layer
/// tells them apart.
std::int64_t feed_forward_matrices(const StageShape& shape);
/// Elements of a layer's biases, sinks and the like, without those of the norms: on one tensor rank, those
/// that all tensor ranks have included.
struct LayerBiases {
  std::int64_t replicated = 0;
  std::int64_t split = 0;
  std::int64_t total() const { return replicated + split; }
};
LayerBiases layer_biases(const StageShape& shape);
/// Elements of its QKV matrices.
std::int64_t qkv_matrices(const StageShape& shape);
std::int64_t parameters_per_layer(const StageShape& shape);
StageParameters parameters_of(const StageShape& shape);

}  // namespace plumbline
