// The sizes of one pipeline stage on one tensor rank, in the notation of bench/training/README.md.
#pragma once

#include <cstdint>
#include <vector>

#include "core/run_config.hpp"

namespace plumbline {

/// Widths are per tensor rank. Counts are elements unless said otherwise.
struct StageShape {
  std::int64_t tokens = 0;        // T = micro_batch_size · seq_length
  std::int64_t batch = 0;         // sequences of a micro-batch
  std::int64_t seq = 0;           // tokens of a sequence
  std::int64_t hidden = 0;        // h
  std::int64_t head_dim = 0;      // d
  std::int64_t heads = 0;         // query heads of this tensor rank
  std::int64_t kv_heads = 0;      // key/value heads of this tensor rank, at least one
  std::int64_t q = 0;             // heads · d
  std::int64_t k = 0;             // kv_heads · d
  std::int64_t ffn = 0;           // F
  std::int64_t fc1 = 0;           // f: 2F for SwiGLU, F for GELU
  std::int64_t vocab = 0;         // v: padded vocabulary of this tensor rank
  std::int64_t positions = 0;     // rows of the learned position table, 0 for rotary models
  std::int64_t layers = 0;        // of this stage
  std::int64_t norm_rows = 1;     // n: fp32 statistics per token and norm
  std::int64_t norm_vectors = 1;  // w: weight vectors per norm
  bool first = false;             // holds the embedding
  bool last = false;              // holds the final norm, the output layer and the loss
  bool single = false;            // the only stage: P = 1
  bool tied = false;
  bool qkv_bias = false;
  bool linear_bias = false;
  bool rotary = true;
  bool swiglu = true;
  bool layer_norm = false;
  bool shared_kv = false;    // fewer key/value heads than tensor ranks
  int tensor = 1;            // t
  DType type = DType::bf16;  // storage type
  DType grad_type = DType::fp32;

  std::int64_t e() const { return size_of(type); }
  std::int64_t g() const { return size_of(grad_type); }
};

/// Shapes of all stages, first to last; as many as the schedule has on one route.
std::vector<StageShape> stage_shapes(const RunConfig& config, int stages);

/// Parameters of a stage on one tensor rank, by owner.
struct StageParameters {
  std::int64_t layers = 0;     // all layers together
  std::int64_t embedding = 0;  // word embeddings
  std::int64_t positions = 0;  // learned positions
  std::int64_t final_norm = 0;
  std::int64_t output = 0;  // output layer; 0 when it is the embedding itself
  std::int64_t total() const { return layers + embedding + positions + final_norm + output; }
};
std::int64_t parameters_per_layer(const StageShape& shape);
StageParameters parameters_of(const StageShape& shape);

}  // namespace plumbline
