// Bytes of the tensors of one stage and micro-batch, by the part of a layer that makes them.
#pragma once

#include <cstdint>

#include "analysis/memory/stage/quantized_bytes.hpp"
#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// The stream between blocks, R·h, and what norms, dropout and tensor ranks make of it.
struct StreamBytes {
  std::int64_t tensor;  // R·h: block inputs, norm outputs, gradients of them
  std::int64_t mask;    // R·h bytes: where dropout left the stream; 0 without
  std::int64_t result;  // of attention or the MLP, with a norm behind it; 0 without
  std::int64_t result_statistics;
  std::int64_t dropped;     // gradient of a block's result, where dropout or a norm is behind it; else 0
  std::int64_t gathered;    // T·h of a stream tensor over the tensor ranks; 0 without sequence parallelism
  std::int64_t statistics;  // of one norm
  std::int64_t input_statistics;  // of that of a block's input; 0 without
  std::int64_t features;          // T·r of an A
  std::int64_t partial;           // of a product that is summed over tensor ranks
  std::int64_t piece;             // its share after a reduce-scatter, before it is rounded
  std::int64_t norm_output;       // operand of a layer's products: in the storage type, or quantized
  std::int64_t wide_norm_output;  // source of the quantized one; 0 without FP8
  std::int64_t operand;    // norm output or gradient of the stream, gathered; 0 without sequence parallelism
  std::int64_t quantized;  // 0 without FP8

  explicit StreamBytes(const StageShape& s);
};

/// Attention on a rank's own heads and tokens.
struct AttentionBytes {
  std::int64_t qkv;
  std::int64_t normed;  // queries and keys after norms of their own, with the statistics; 0 without
  std::int64_t output;  // T·q
  std::int64_t heads;   // exchanged for sequences: attention's output by head; else 0
  /// With the tensors that unfused attention and its dropout, or attention of exchanged heads, keep with it.
  std::int64_t lse;
  std::int64_t scores;  // of unfused attention, as long as they or their gradient are needed; else 0
  std::int64_t quantized_output;  // 0 without FP8
  std::int64_t quantized_qkv;
  ProductBytes qkv_product;  // in latent attention the compressing product
  ProductBytes projection_product;

  explicit AttentionBytes(const StageShape& s);
};

/// Keys and values over context-parallel ranks; 0 if a rank has its own alone.
struct ContextBytes {
  std::int64_t whole_keys;     // keys and values of whole sequences
  std::int64_t part_keys;      // of one sequence
  std::int64_t own_keys;       // of the rank's chunks
  std::int64_t block;          // round a ring: results of a chunk; else 0
  std::int64_t block_queries;  // gradients of a chunk's queries
  std::int64_t block_statistics;
  std::int64_t block_keys;  // gradients of a chunk's keys and values

  explicit ContextBytes(const StageShape& s);
};

/// Latent attention; 0 without.
struct LatentBytes {
  std::int64_t compressed;        // R·C: before the norms; after them; its gradient
  std::int64_t statistics;        // of both norms
  std::int64_t gathered;          // T·C; 0 without sequence parallelism
  std::int64_t own_part_of_keys;  // T·u, or its gradient; in FP8 with the values' T·a
  std::int64_t partial;           // of a gradient that is summed over tensor ranks, and its share
  std::int64_t piece;
  // Gradients and operands of the products that read the compressed form, quantized; 0 without FP8.
  std::int64_t quantized_compression;
  std::int64_t quantized_queries;
  std::int64_t quantized_keys_values;
  std::int64_t query_input;
  std::int64_t keys_values_input;
  std::int64_t compression_gathered;  // the first of these gathered, or its source
  ProductBytes queries_product;
  ProductBytes keys_values_product;

  LatentBytes(const StageShape& s, const StreamBytes& stream);
};

/// The feed-forward layer, or all experts' rows together.
struct FeedForwardBytes {
  std::int64_t fc1;
  std::int64_t activation;              // T·F
  std::int64_t activation_output;       // as products read it: in the storage type, or quantized with scales
  std::int64_t fc1_gradient;            // of experts, as products read it
  std::int64_t wide_activation_output;  // sources of quantized tensors; 0 without FP8
  std::int64_t quantized_fc1;
  ProductBytes fc1_product;
  ProductBytes fc2_product;

  explicit FeedForwardBytes(const StageShape& s);
};

/// Router and rows of experts; 0 in other layers.
struct MixtureBytes {
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
  // Expert rows as made and as products read them, and the rows kept from the forward on.
  std::int64_t made_rows;
  std::int64_t read_rows;
  std::int64_t kept_rows;

  explicit MixtureBytes(const StageShape& s);
};

/// A mixture's shared expert; 0 without.
struct SharedExpertBytes {
  std::int64_t weights;
  std::int64_t products;  // gradient of the weights, two numbers each
  std::int64_t gate;      // gradient of the gate
  std::int64_t fc1;
  std::int64_t activation;
  std::int64_t operand;  // its input, or the gradient of its output, quantized; else 0
  std::int64_t activation_output;
  std::int64_t fc1_gradient;
  ProductBytes fc1_product;
  ProductBytes fc2_product;

  explicit SharedExpertBytes(const StageShape& s);
};

/// Output layer and loss, on one rank or on shards of the vocabulary.
struct LossBytes {
  std::int64_t logits;
  std::int64_t fp32_logits;       // the copy that the loss works on; 0 if it works on the logits
  std::int64_t statistics;        // of the loss
  std::int64_t shard_statistics;  // vocab_parallel: three rows of every shard, and the factors of this one
  std::int64_t output_gradient;   // vocab_parallel: dX, fp32
  std::int64_t target_rows;       // vocab_parallel, one barrier: kept where ZeRO 3 drops the shard; else 0

  explicit LossBytes(const StageShape& s);
};

/// Distillation's teacher.
struct TeacherBytes {
  std::int64_t joint;     // message of teacher and student
  std::int64_t stream;    // R·h_T
  std::int64_t gathered;  // T·h_T; 0 without sequence parallelism
  std::int64_t logits;    // kept until the loss

  explicit TeacherBytes(const StageShape& s);
};

/// Bytes of the tensors that the description names, for one micro-batch.
struct TensorBytes {
  StreamBytes stream;
  AttentionBytes attention;
  ContextBytes context;
  LatentBytes latent;
  FeedForwardBytes mlp;
  MixtureBytes moe;
  SharedExpertBytes shared;
  LossBytes loss;
  TeacherBytes teacher;

  explicit TensorBytes(const StageShape& s);
};

}  // namespace plumbline
