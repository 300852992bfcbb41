// Sizes and settings of a whole stage on one rank, by topic: place, ends, numerics, sharding, overlap,
// recomputation, adapters, distillation.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// Position of a stage in the schedule, which changes nothing in the work of its layers.
struct StagePlace {
  int stage = 0;  // of the schedule, all routes counted
  int route = 0;
  bool first = false;          // of its route: holds the embedding
  bool last = false;           // of its route: holds the final norm, the output layer and the loss
  bool single = false;         // the only stage of its route
  bool previous_here = false;  // the previous stage of the route is on the same rank
  bool next_here = false;      // the next stage of the route is on the same rank
  friend bool operator==(const StagePlace&, const StagePlace&) = default;
};

/// Embedding, output layer and loss, where the stage has them, and MTP modules.
struct EndsShape {
  std::int64_t vocab = 0;        // v: padded vocabulary of this tensor rank, or of its shard
  std::int64_t outputs = 0;      // columns of its output layer: v, or 1 of a scalar head
  std::int64_t positions = 0;    // rows of the learned position table, 0: there is none
  bool block_positions = false;  // a token has two positions
  bool embedding_norm = false;
  bool scaled_embedding = false;
  bool scaled_logits = false;  // by a multiplier of the final norm's output
  bool tied = false;
  bool shared_output = false;  // the output layer is the embedding of a first stage on the same rank
  bool output_bias = false;    // of the output layer
  bool scalar_head = false;    // one output
  bool normed_output = false;  // the output layer's rows are divided by their lengths
  bool loss_in_fp32 = false;   // the loss works on an fp32 copy of 16-bit logits
  bool defers_output_gradient =
      false;  // its last stage has I, all but the output layer's weight gradient, and W
  std::int64_t prediction_modules = 0;  // MTP modules on the last stage (bench/training/mtp.md)
  bool repeated_module = false;         // whose weights are those of one
  bool wide_modules = false;            // and which stay in 16 bits where layers have fewer
  bool embedding_copy = false;          // which look them up in a copy of the embedding, of no other use
  bool shared_lookup = false;           // or in the embedding of a first stage on the same rank
  friend bool operator==(const EndsShape&, const EndsShape&) = default;
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

/// Update of the parameters.
struct OptimizerShape {
  Optimizer kind = Optimizer::adam;
  bool momentum = false;                 // gradient descent keeps one
  bool split_qkv = true;                 // Muon: queries, keys and values are matrices of their own
  bool gathers_blocks = false;           // Muon: matrices are made orthogonal whole, on every tensor rank
  std::int64_t newton_schulz_steps = 5;  // Muon
  double state_bytes_less = 0;    // held per parameter than the optimizer's fp32 states of the software
  bool blockwise_states = false;  // in 8 bits, those of small tensors in fp32
  double update_bytes_less = 0;   // and moved per parameter and step
  friend bool operator==(const OptimizerShape&, const OptimizerShape&) = default;
};

struct NumericsShape {
  DType type = DType::bf16;  // storage type
  DType grad_type = DType::fp32;
  bool sums_in_fp32 = true;           // partial sums of tensor ranks travel in fp32, else in the storage type
  bool fp8 = false;                   // linear layers in FP8 (bench/training/fp8.md)
  bool fp8_tensorwise = false;        // scales belong to tensors, no history is kept
  bool framework_fp8 = false;         // the same for another framework's step, whose fp8 is false
  bool fp8_weights = false;           // which holds and gathers weights of layers in FP8
  bool fp4 = false;                   // the same with operands of 4 bits instead (NVFP4)
  bool fp8_activation_input = false;  // SwiGLU's input is kept in one byte per element
  int fp8_forms = 2;   // of an operand of such products: its rows, and its columns where they need those
  int held_forms = 2;  // of weights, from one step to the next
  double operand_bytes = 1;      // of an element of them, with the scales of NVFP4's blocks
  std::int64_t fp8_history = 0;  // largest values kept of every slot; 0 without delayed scaling
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  OptimizerShape optimizer;
  bool cuda = false;           // backend cuda, whose attention has a scratch of another size
  bool deterministic = false;  // and of yet another where it gives the same bits every time

  std::int64_t e() const { return size_of(type); }
  std::int64_t g() const { return size_of(grad_type); }
  /// Type of the partial sums of tensor ranks: fp32, rounded into the storage type afterwards, or the storage
  /// type.
  DType sum_type() const { return sums_in_fp32 ? DType::fp32 : type; }
  bool rounds_sums() const { return size_of(sum_type()) > e(); }
  friend bool operator==(const NumericsShape&, const NumericsShape&) = default;
};

struct ShardingShape {
  int tensor = 1;                  // t
  bool sequence_parallel = false;  // in effect: t > 1
  int data = 1;                    // D: ranks with the same parameters, those that share a sequence included
  int zero = 0;                    // Z: the ZeRO stage in effect, 0 when D = 1
  int state_shards = 1;            // ranks that it cuts over: D ÷ optimizer_instances
  int optimizer_instances = 1;
  bool double_buffers = false;  // of gathered parameters and gradients of two layers, at all times
  int secondary_shards =
      1;  // ZeRO 3: ranks that have a second copy of the parameters between them; 1: there is none

  /// The first use of a unit in a step gathers it from all ranks, later ones from fewer
  /// (bench/training/hpz.md).
  bool keeps_secondary_shards() const { return secondary_shards > 1; }
  friend bool operator==(const ShardingShape&, const ShardingShape&) = default;
};

struct OverlapShape {
  bool tensor = false;             // collectives of the layers' products alongside them; sequence parallel
  bool grad_reduce = true;         // gradients are reduced alongside the backwards
  bool param_gather = false;       // parameters are gathered one unit ahead of their use
  bool interleaved = false;        // several chunks per pipeline rank, of other software
  bool aligned_gathers = true;     // with these: the gathers of all start with the step
  bool gathers_in_update = false;  // and the first chunk's in front of the other chunks' update
  bool receives_ahead = false;     // a message's buffer is there one computation before its RECV
  bool pairs = false;  // overlapped pairs run together, the one behind the other's exchanges of rows
  bool delayed_weights =
      false;  // of other software: in pairs, weight gradients hide a backward's last exchange
  bool shared_expert = false;  // its products run alongside exchanges of rows
  double bucket_elements = 0;  // least number of gradients reduced at once; 0: those of a unit
  friend bool operator==(const OverlapShape&, const OverlapShape&) = default;
};

struct RecomputationShape {
  Recompute granularity = Recompute::none;
  std::int64_t layers = 1;     // full recomputation: layers of a group
  bool keeps_modules = false;  // of other software: MTP modules are not recomputed
  RecomputeModules modules;    // selective recomputation of plumbline's own step
  std::int64_t offloaded =
      0;  // of the stage's first layers: their activations are on the host until the backward
  OffloadModules offloads;  // or inputs of these parts of them alone
  friend bool operator==(const RecomputationShape&, const RecomputationShape&) = default;
};

/// States that another framework has in host memory.
struct HostStatesShape {
  double optimizer = 0;     // share of the optimizer's states, which processors update
  double gradients = 0;     // share of the gradients, which go there during backwards
  bool parameters = false;  // shards that forwards and backwards copy to the device
  /// Passes copy.
  bool in_passes() const { return gradients > 0 || parameters; }
  friend bool operator==(const HostStatesShape&, const HostStatesShape&) = default;
};

/// Vision tower in front of a first stage's embedding. No tower: its layers are 0.
struct VisionShape {
  VisionTower tower;          // without its keys
  std::int64_t images = 0;    // of a micro-batch
  std::int64_t patches = 0;   // of an image
  int tensor = 1;             // ranks over which products are cut
  bool trains_layers = true;  // with the tables in front of them
  bool trains_mergers = true;
  bool on() const { return tower.layers > 0; }
  /// True if a backward goes on behind the language model's.
  bool has_backward() const { return on() && (trains_layers || trains_mergers); }
  std::int64_t all_patches() const { return images * patches; }
  std::int64_t tokens() const { return on() ? all_patches() / tower.square() : 0; }
  friend bool operator==(const VisionShape&, const VisionShape&) = default;
};

/// LoRA, or layers without anything that trains.
struct AdapterShape {
  std::int64_t rank = 0;  // r of the adapters, which alone train; 0: everything trains
  LoraTargets targets = LoraTargets::attention;
  bool own = false;         // of plumbline's own step (bench/training/lora.md)
  bool scaled = false;      // there, alpha is not r
  bool qkv_apart = false;   // q, k and v have an A each
  bool fc1_apart = false;   // so have gate and up
  bool all_frozen = false;  // there are no adapters either
  FrozenWeights weights = FrozenWeights::native;
  bool quantized() const { return weights != FrozenWeights::native; }
  bool frozen() const { return rank > 0 || all_frozen; }
  friend bool operator==(const AdapterShape&, const AdapterShape&) = default;
};

/// Behaviour that the software of the step decides. The values here are those of plumbline's own step
/// (bench/training).
struct StepTraits {
  bool own_lists = true;                 // calls and tensors are listed as bench/training says
  bool gathers_in_first_forward = true;  // ZeRO 1 and 2 with overlap: the first forward gathers, not OPT
  bool shards_within_instances = true;   // units are cut within an optimizer instance, then reduced across
  bool exchanges_rows = true;            // experts of their own units, to whose ranks rows go
  bool runs_prediction_modules = true;   // MTP modules are layers with units of their own
  bool attends_by_chunk = true;          // context parallelism: chunk by chunk of the sequence
  bool copies_reduced_pieces = true;     // into the gradient, one after the other
  bool one_send_buffer = true;           // per channel: a message waits for the one before
  bool sends_ahead = true;               // hosts do not wait for messages, whose latency keeps no one busy
  bool ends_by_call = true;              // lines and lanes show every call of the step's end, hidden or not
  bool machine_overhead = true;          // a step's overhead is the hardware profile's
  bool interlaced_in_step = false;       // interlaced passes begin and end together on all ranks
  friend bool operator==(const StepTraits&, const StepTraits&) = default;
};
/// Steps of other frameworks.
inline constexpr StepTraits kFrameworkTraits{.own_lists = false,
                                             .gathers_in_first_forward = false,
                                             .shards_within_instances = false,
                                             .exchanges_rows = false,
                                             .runs_prediction_modules = false,
                                             .attends_by_chunk = false,
                                             .copies_reduced_pieces = false,
                                             .one_send_buffer = false,
                                             .sends_ahead = false,
                                             .ends_by_call = false,
                                             .machine_overhead = false,
                                             .interlaced_in_step = true};

/// Share of launches that another framework captures as CUDA graphs, by part.
struct Graphs {
  double layer = 0;      // of a layer without an MoE layer's routing and experts
  double router = 0;     // of the routing
  bool step = false;     // everything
  bool experts = false;  // dispatch and experts, in one graph of the step or of whole layers
  double mamba = 0;      // of a layer with a Mamba mixer and nothing else
  friend bool operator==(const Graphs&, const Graphs&) = default;
};

}  // namespace plumbline
