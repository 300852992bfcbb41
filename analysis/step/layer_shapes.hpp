// Sizes of one layer on one tensor rank, by topic: attention, feed-forward block, mixture of experts, context
// parallelism. Notation of bench/training/README.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// The residual stream.
struct StreamShape {
  std::int64_t tokens = 0;  // T = micro_batch_size · seq_length / context_parallel_size
  std::int64_t rows = 0;    // R: rows of the residual stream, T or T/t with sequence parallelism
  std::int64_t batch = 0;   // sequences of a micro-batch
  std::int64_t seq = 0;     // tokens of a sequence
  std::int64_t hidden = 0;  // h
  friend bool operator==(const StreamShape&, const StreamShape&) = default;
};

struct AttentionWidths {
  std::int64_t head_dim = 0;  // d
  std::int64_t heads = 0;     // query heads of this tensor rank
  std::int64_t kv_heads = 0;  // key/value heads of this tensor rank, at least one
  std::int64_t q = 0;         // heads · d
  std::int64_t k = 0;         // kv_heads · d
  bool rotary = true;
  std::int64_t rotated = 0;  // elements of a head that rotary embeddings turn
  // Latent attention (bench/training/latent.md), whose d is that of queries and keys; 0: none.
  std::int64_t query_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t value_dim = 0;  // a head of values
  bool qk_norm = false;        // of queries and keys, head by head
  bool qkv_bias = false;
  std::int64_t prefix = 0;  // first tokens of a sequence that see each other
  bool shared_kv = false;   // fewer key/value heads than tensor ranks
  bool unfused = false;
  bool fp8 = false;                  // operands of its products, in another framework's step
  bool dropout = false;              // p_a > 0
  bool wide_norms = false;           // qk_norm over all heads together
  double share = 1;                  // of packed documents' pairs of tokens in whole sequences'
  std::vector<PackedLength> packed;  // calls of a sequence on the slowest ranks; empty: one
  std::vector<PackedRing> rings;     // with dynamic_context_parallel, of these calls

  bool latent() const { return kv_rank > 0; }
  /// Elements per token of all heads' values, and of attention's result; of queries, keys and values side by
  /// side.
  std::int64_t values() const { return latent() ? heads * value_dim : k; }
  std::int64_t attended() const { return latent() ? heads * value_dim : q; }
  std::int64_t qkv() const { return q + k + values(); }
  /// Latent attention: width of the compressed input of queries, keys and values with the keys' rotated
  /// elements, and width of the keys' other elements.
  std::int64_t compressed() const { return query_rank + kv_rank + rotated; }
  std::int64_t own_keys() const { return heads * (head_dim - rotated); }
  friend bool operator==(const AttentionWidths&, const AttentionWidths&) = default;
};

/// The mixer of a layer's tokens, and sizes of a Mamba mixer on this tensor rank
/// (core/config/hybrid_layers.hpp).
struct MixerShape {
  Mixer kind = Mixer::attention;
  bool feed_forward = true;  // the layer has a feed-forward block, too
  Mamba mamba;               // heads and groups of this rank
  friend bool operator==(const MixerShape&, const MixerShape&) = default;
};

/// Order of a layer's blocks, its norms and their residual sums.
struct BlockShape {
  Block order = Block::sequential;
  bool layer_norm = false;
  std::int64_t norm_rows = 1;     // n: fp32 statistics per token and norm
  std::int64_t norm_vectors = 1;  // w: weight vectors per norm
  bool normed_residual = false;   // blocks add to a multiple of their norm's output
  bool scaled_scores = false;     // multipliers: of queries
  bool scaled_residual = false;   // of values and of the MLP's last input
  bool linear_bias = false;
  bool dropout = false;        // p_h > 0: masks are kept (bench/training/dropout.md)
  bool norms_inputs = true;    // of attention and the MLP
  bool norms_results = false;  // likewise, instead or as well
  std::int64_t blocks = 2;     // a mixer and a feed-forward layer, or one of both

  /// Norms of a layer, those of queries and keys not counted.
  std::int64_t norms() const { return order == Block::parallel_one_norm ? 1 : blocks; }
  /// Those among them of attention's and the MLP's inputs; further ones are of results.
  std::int64_t input_norms() const { return norms_inputs ? norms() : 0; }
  bool parallel() const { return order != Block::sequential; }
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

/// The feed-forward block; of an MoE model one expert's.
struct FeedForwardShape {
  std::int64_t ffn = 0;  // F
  std::int64_t fc1 = 0;  // f: 2F with a gate, else F
  bool swiglu = true;    // or another activation with a gate
  friend bool operator==(const FeedForwardShape&, const FeedForwardShape&) = default;
};

/// Rows of a layer's experts under a known routing.
struct KnownRows {
  std::int64_t sent = 0;  // N: of the rank's own tokens
  std::int64_t here = 0;  // N': of its own experts, if they are spread over ranks
  friend bool operator==(const KnownRows&, const KnownRows&) = default;
};

/// Properties in which layers of a stage differ. StageShape describes those of LayerKind().
struct LayerKind {
  bool dense = false;       // without the experts that the model's others have
  std::int64_t window = 0;  // keys that a query sees, less than a sequence has; 0: all up to itself
  bool wide = false;        // linear layers in 16 bits where the model's others have fewer
  bool keeps = false;       // activations, where others are recomputed
  Mixer mixer = Mixer::attention;
  bool feed_forward = true;
  KnownRows rows{};  // at its experts, of plumbline's step with a known routing
  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// Neighbouring layers of one kind.
struct AlikeLayers {
  std::int64_t layers = 0;
  LayerKind kind;
  friend bool operator==(const AlikeLayers&, const AlikeLayers&) = default;
};

/// Mixture of experts (bench/training/mixtures.md).
struct MixtureShape {
  std::int64_t experts = 0;  // E; 0: none
  std::int64_t choices = 0;  // T·k: of the tokens
  std::int64_t choice_rows =
      0;  // N: rows at experts for the tokens that it sends, equally many without a capacity
  std::int64_t capacity = 0;      // rows of an expert at most; 0: any number
  bool padded = false;            // and always
  std::int64_t row_multiple = 1;  // which they are filled up to: 16 in FP8, of plumbline's step
  std::int64_t shared = 0;        // Fs: of an MoE layer's shared expert; 0: none
  bool shared_gated = true;       // its results are weighted by a gate
  std::int64_t dense_ffn = 0;     // F of layers without experts
  std::int64_t latent = 0;        // width of tokens at experts, if they are projected to another; else 0
  bool global_balance =
      false;  // tokens of every expert are counted over all copies, micro-batch by micro-batch
  bool context_balance = false;  // or over the ranks of a sequence alone
  bool expert_bias = false;      // routers have a number per expert that no gradient trains
  std::vector<KnownRows>
      known_rows;  // by layer of the stage, then by module, of plumbline's step with a known routing; else
                   // empty

  /// Rows of an expert that `chosen` tokens have chosen (Megatron-LM, apply_router_token_dropping).
  std::int64_t rows_of_expert(std::int64_t chosen) const {
    std::int64_t kept = chosen;
    if (capacity > 0) kept = padded ? capacity : std::min(chosen, capacity);
    return (kept + row_multiple - 1) / row_multiple * row_multiple;
  }
  friend bool operator==(const MixtureShape&, const MixtureShape&) = default;
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
  double fullest = 1;       // rows of the fullest rank ÷ the mean; in `rows` already
  double inside = 1;        // time of grouped products ÷ that of evenly loaded experts
  double room = 1;          // rows of the experts' buffers while they run ÷ `rows`
  double kept = 1;          // the same of those kept for the backward
  bool overlapped = false;  // exchanges run alongside the computation of another micro-batch
  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
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

/// Sequences shared by ranks.
struct ContextShape {
  int ranks = 1;  // CP
  CpCommType comm_type = CpCommType::p2p;
  int head_ranks = 1;  // of them, those that exchange heads with each other; the rest is a ring
  bool load_balance = true;
  bool dynamic = false;  // as many of the ranks as a conversation needs

  /// Size of the K/V ring: CP ranks, or groups that exchanged heads.
  int ring() const { return ranks / head_ranks; }
  /// Index, among 2·`members` pieces of a sequence, of the earlier (0) or later (1) piece of one member.
  std::int64_t piece_of(int members, int member, int place) const {
    if (!load_balance) return std::int64_t{2} * member + place;
    return place == 0 ? member : std::int64_t{2} * members - 1 - member;
  }
  friend bool operator==(const ContextShape&, const ContextShape&) = default;
};

}  // namespace plumbline
