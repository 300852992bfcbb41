// The operators and collectives of one training step, call by call, as bench/training/README.md describes
// them. The time model prices them, predict_traffic adds up their messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

enum class CallKind : std::uint8_t {
  gemm,
  attention,
  memory_bound,
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  ring_shift,  // each member sends its buffer to the next one
  all_to_all,  // each member sends an equal part of its buffer to every other one
  allocation,
  wait  // until the collective that was started under the same ticket is done
};
/// True for a collective of a group, blocking or asynchronous.
bool is_collective(CallKind kind);

/// Launches of a call in another framework, where they matter (analysis/time/host_lane.hpp).
struct HostLaunch {
  bool reads = false;    // the host waits for the device before it launches them
  Seconds before;        // for operators up to the call's own kernel, its launch included
  double product_s = 0;  // gemm: for each of `batch` products, on any host
};

/// One operator call or collective (or `count` equal ones). Names are literals: a list is made often.
struct OperatorCall {
  CallKind kind = CallKind::memory_bound;
  const char* label = "";    // its purpose, for people; label_of() adds the pass
  const char* name = "";     // memory_bound: the operator's name in kernels/operators.hpp
  DType type = DType::bf16;  // storage type (collectives: of the buffer)
  GemmPass pass = GemmPass::forward;
  bool fp8 = false;             // gemm: of FP8 operands; the result is of the storage type
  bool block_scaled = false;    // gemm: with a scale per 32 elements of them (MXFP8)
  bool fp4 = false;             // gemm: of NVFP4 operands instead
  bool bias_gradient = false;   // gemm: a weight's gradient, and with it that of the bias
  bool backward = false;        // attention
  bool dropout = false;         // attention: of its probabilities
  bool cudnn = false;           // attention: by cuDNN's kernels
  Group group = Group::tensor;  // collectives
  int ranks = 1;                // collectives: members of the group
  /// Collectives: 0: the rank waits until it is done. Otherwise the rank continues, and the collective runs
  /// on its group's lane until a `wait` with the same number. Numbers belong to one part of an action.
  int ticket = 0;
  bool hands_over = false;  // all_to_all: in an overlapped pair the other action runs meanwhile
  double processors = 0;    // collectives with a ticket: multiprocessors that they hold; 0: as NCCL does
  std::int64_t tokens = 0;  // gemm: token rows; attention: queries of a sequence
  /// gemm: output width; attention, rope: head size (the mean where values have another); norms: width of a
  /// row.
  std::int64_t out = 0;
  std::int64_t in = 0;           // gemm: input width; attention: query heads per key/value head
  std::int64_t window = 0;       // attention: keys that a query sees, itself included; 0: all up to itself
  std::int64_t prefix = 0;       // attention: first tokens of a sequence, which all of it sees
  std::int64_t past = 0;         // attention: keys in front of the first query's own
  std::int64_t keys = 0;         // attention: of a sequence, where all of them are in front of the queries
  std::int64_t elements = 0;     // memory_bound: of the largest matrix; attention: heads · batch;
                                 // collectives: of the reduced or broadcast buffer, the gathered output, the
                                 // scattered input
  double bytes_per_element = 0;  // memory_bound: read and written, for the roofline
  // Only in lists of other frameworks (framework_list.hpp).
  std::int64_t batch = 1;  // gemm: equal products in one call
  bool grouped = false;    // gemm: they are of the experts of a layer
  int stride = 0;  // collectives: world ranks between neighbours of the group; 0: as the layout has it
  // all_to_all: for tokens that go once to every rank and node with one of `choices` experts, on at most
  // `most_nodes` nodes.
  std::int64_t choices = 0;
  std::int64_t most_nodes = 0;
  double result_bytes =
      0;  // gemm: per element of the result, twice its size where it is added to; 0: as plumbline
  bool random = false;  // memory_bound: draws a random number per element
  double share = 1;     // of the call's time that counts: part of it is hidden, or it runs for a part only
  std::int64_t count = 1;
  HostLaunch launch;

  Bytes bytes() const { return {elements * size_of(type)}; }
};
/// "qkv forward", "fc2 weight_gradient, fp8", "rope".
std::string label_of(const OperatorCall& call);

/// Part of an action between two points where the data group is asked for parameters or given gradients.
struct UnitWork {
  std::vector<OperatorCall> calls;
  OperatorCall gather;  // ZeRO-3: of the unit's values, started when the use before begins; or 0 elements
  OperatorCall
      expert_gather;  // right after it: of a layer's experts, where they are spread over ranks; or 0 elements
  OperatorCall scatter;     // ZeRO-2, 3: of the unit's gradient, started at the end; or 0 elements
  OperatorCall between;     // with it: summing the piece over the optimizer's instances; or 0 elements
  OperatorCall accumulate;  // with it: adding the piece once it is there
  bool final_gradient =
      false;  // the unit's gradient is final at the end of this part of the last micro-batch
  /// Processor time to launch the calls. The layers of an action take the larger of device and host; parts
  /// outside the layers (`apart`: few long kernels) hide no launches of the layers.
  Seconds host;
  Seconds host_products;  // the same for experts' products, on any host
  bool apart = false;
};

/// Work of an action on a stage: `runs` names parts in order, each with its number of repetitions.
struct ActionWork {
  struct Run {
    std::size_t part = 0;
    std::int64_t repeat = 1;
    std::int64_t layer = -1;  // of the stage, where it offloads some: it decides the copies
  };
  std::vector<UnitWork> parts;
  std::vector<Run> runs;
  Seconds host;                // processor time of the action outside its parts
  Seconds fixed;               // on top of everything: hand-over between streams
  bool gathers_ahead = true;   // of the parts' gathers; else each is awaited where its use begins
  bool scatters_go_on = true;  // of the parts' scatters; else each is awaited where it starts
};

/// The work of F, B, I, W, TF (on the shape of the teacher's stage), IF, S, T or IB (on a stage with
/// vocabulary shards) for one micro-batch. With a teacher, F of the last stage contains the loss. S contains
/// all that its rank computes until C2 starts. Throws InputError for another type.
ActionWork work_of(const StageShape& shape, ActionType type);
/// The same for the first F of a step. If the stage gathers_in_first_forward(), it gathers every unit where
/// ZeRO-3 would; if it keeps_secondary_shards(), it gathers units from all ranks. A tied output layer on the
/// same rank is gathered with the embedding.
ActionWork first_forward_work(const StageShape& shape);
/// Its calls without their order, everything that is started included.
std::vector<OperatorCall> calls_of(const ActionWork& work);
std::vector<OperatorCall> forward_calls(const StageShape& shape);
std::vector<OperatorCall> backward_calls(const StageShape& shape);
std::vector<OperatorCall> backward_input_calls(const StageShape& shape);
std::vector<OperatorCall> backward_weight_calls(const StageShape& shape);

/// The collectives of vocabulary parallelism, once per micro-batch on every rank, overlapped with its
/// computation. `s`: a stage that carries shards.
struct VocabularyCollectives {
  OperatorCall hidden;              // C0: from the last stage's F to S
  OperatorCall statistics;          // C1: from all S to T, with one barrier to C2
  OperatorCall gradient;            // C2: to the last stage's backward, with one barrier also to T
  OperatorCall embedding;           // I1: from all IF to the first stage's F
  OperatorCall embedding_gradient;  // I2: from the first stage's backward to IB
};
VocabularyCollectives vocabulary_collectives(const StageShape& s, const Layout& layout);
/// Without overlap: collectives that the rank of `s` spends time on in IF, S, T or IB.
std::vector<OperatorCall> vocabulary_calls_of(const StageShape& s, ActionType type, const Layout& layout);

/// Clearing of a stage's gradients for the next step.
std::vector<OperatorCall> clear_calls(const StageShape& shape);
/// Squared norm of the gradients that a rank owns of a stage.
std::vector<OperatorCall> norm_calls(const StageShape& shape);
/// Update of the elements that a rank owns of a stage.
std::vector<OperatorCall> update_calls(const StageShape& shape, Optimizer optimizer);

/// A gradient reduction over the data group that starts when the gradients of its units are final.
struct GradientBucket {
  std::vector<std::size_t> units;  // indices into units_of(shape), descending
  OperatorCall reduce;             // Z = 0: all-reduce; Z = 1: reduce-scatter of one unit
  OperatorCall between;            // behind it: the sum of its piece between instances; or 0 elements
  bool at_end = false;             // started by ARG, not earlier
};
/// Empty when D = 1 or Z ≥ 2. `bucket_size` in elements.
std::vector<GradientBucket> gradient_buckets(const StageShape& shape, std::int64_t bucket_size);

/// Z = 1: copying the reduced piece of a bucket into the gradient.
OperatorCall piece_copy(const StageShape& shape, const GradientBucket& bucket);

/// Linear layers in FP8 (bench/training/fp8.md): quantizing a stage's weights again after an update,
/// for both forms in which products read them. Empty without them, and with ZeRO-3, which quantizes at every
/// use.
std::vector<OperatorCall> fp8_weight_calls(const StageShape& shape);

/// Stages that a pipeline rank holds, and the ranks it shares them with.
struct HeldStages {
  std::vector<StageShape> held;  // ascending stage numbers
  Layout layout;
  /// Number of these, from the front, that belong to the schedule's first route; the others are copies of
  /// other ranks' stages. The gradient norm counts the first route's copy.
  std::size_t of_first_route = 0;
  int mirror = 1;               // members of its mirror group; 1 without a second route
  bool embedding_copy = false;  // one of two copies of a tied embedding that are on two ranks
};
HeldStages stages_on_rank(const RunConfig& config, const Schedule& schedule,
                          const std::vector<StageShape>& shapes, int rank);

/// ARG: everything that is reduced over the data and the mirror group, whenever it started.
std::vector<OperatorCall> reduce_gradients_calls(const HeldStages& rank, const RunConfig& config);
/// ARG's own calls after the buckets: vectors, then the mirror group unit by unit.
std::vector<OperatorCall> late_reduction_calls(const HeldStages& rank);
/// ARE: the embedding's gradient, when the rank holds one of two copies.
std::vector<OperatorCall> reduce_embedding_calls(const HeldStages& rank);
/// Delayed scaling, part of OPT: the largest values of all slots go round, then history and scales. Else
/// empty.
std::vector<OperatorCall> fp8_scale_calls(const HeldStages& rank);
/// ZeRO 1 and 2: gathers of a stage by OPT or the first forward of a step, unit by unit.
std::vector<OperatorCall> parameter_gather_calls(const StageShape& shape);
/// OPT on data-parallel rank `data_rank` (which decides whose piece holds key and value rows).
std::vector<OperatorCall> optimizer_calls(const HeldStages& rank, const RunConfig& config, int data_rank);

/// Pairs of a query and a key that it sees, of one head and sequence of an attention call.
double pairs_of(const OperatorCall& call);

/// FLOPs of one call times its count; 0 for anything but GEMM and attention.
Flops flops_of(const OperatorCall& call);

}  // namespace plumbline
