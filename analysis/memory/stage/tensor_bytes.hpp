// Bytes of the tensors of one stage and micro-batch.
#pragma once

#include <cstdint>

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// Bytes that one product of a layer takes besides its operands in FP8 (bench/training/fp8.md); 0 in
/// the storage type.
struct ProductBytes {
  std::int64_t weight;      // ZeRO 3: its quantized weights, or their transpose; else they are held
  std::int64_t transposed;  // gradient of its output and its input, for the weight gradient
};

/// Bytes of the tensors that the description names, for one micro-batch.
struct TensorBytes {
  std::int64_t stream;  // R·h: block inputs, norm outputs, gradients of them
  std::int64_t mask;    // R·h bytes: where dropout left the stream; 0 without
  std::int64_t result;  // of attention or the MLP, with a norm behind it; 0 without
  std::int64_t result_statistics;
  std::int64_t dropped;     // gradient of a block's result, where dropout or a norm is behind it; else 0
  std::int64_t gathered;    // T·h of a stream tensor over the tensor ranks; 0 without sequence parallelism
  std::int64_t statistics;  // of one norm
  std::int64_t input_statistics;  // of that of a block's input; 0 without
  std::int64_t qkv;
  std::int64_t normed;     // queries and keys after norms of their own, with the statistics; 0 without
  std::int64_t attention;  // T·q
  std::int64_t
      lse;  // with the tensors that unfused attention and its dropout, or attention of exchanged heads, keep
            // with it
  std::int64_t scores;         // of unfused attention, as long as they or their gradient are needed; else 0
  std::int64_t whole_keys;     // keys and values of whole sequences; 0 if a rank has its own alone
  std::int64_t part_keys;      // of one sequence
  std::int64_t own_keys;       // of the rank's chunks
  std::int64_t block;          // round a ring: results of a chunk; else 0
  std::int64_t block_queries;  // gradients of a chunk's queries
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
  std::int64_t features;               // T·r of an adapter
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

}  // namespace plumbline
