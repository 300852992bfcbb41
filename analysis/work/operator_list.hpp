// The operators and collectives of one training step, call by call, as bench/training/README.md describes
// them. The time model prices them, predict_traffic adds up their messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "analysis/work/operator_call.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

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
  Seconds host_python;    // the same for the modules' Python besides launches
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
  Seconds host;                   // processor time of the action outside its parts
  Seconds fixed;                  // on top of everything: hand-over between streams
  bool gathers_ahead = true;      // of the parts' gathers; else each is awaited where its use begins
  bool scatters_go_on = true;     // of the parts' scatters; else each is awaited where it starts
  bool slower_alongside = false;  // kernels alongside them have fewer multiprocessors
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
/// Pieces of sharded states that one data rank owns: in units of layers, and in those of spread experts.
struct OwnedPiece {
  int of_layers = 0;
  int of_experts = 0;
};
/// Update of the elements that a rank owns of a stage; Muon's of its piece, or, without one, of each unit's
/// piece with most work, for which the others wait.
std::vector<OperatorCall> update_calls(const StageShape& shape, std::optional<OwnedPiece> piece);

/// A gradient reduction over the data group that starts when the gradients of its units are final.
struct GradientBucket {
  std::vector<std::size_t> units;  // indices into units_of(shape), descending
  OperatorCall reduce;             // Z = 0: all-reduce; Z = 1: reduce-scatter of one unit
  OperatorCall between;            // behind it: the sum of its piece between instances; or 0 elements
  bool at_end = false;             // started by ARG, not earlier
};
/// Elements from which Megatron-Core's DistributedDataParallel reduces without waiting for more; of a later
/// pipeline rank or chunk it reduces all at once (distributed_data_parallel.py), and of interleaved chunks
/// also of the first (grad_sync_func of schedules.py: behind its last backward). 0: unit by unit.
double least_reduced(const StageShape& shape);
/// Empty when D = 1 or Z ≥ 2. `bucket_size` in elements.
std::vector<GradientBucket> gradient_buckets(const StageShape& shape, std::int64_t bucket_size);

/// Z = 1: copying the reduced piece of a bucket into the gradient.
OperatorCall piece_copy(const StageShape& shape, const GradientBucket& bucket);

/// Linear layers in FP8 (bench/training/fp8.md): quantizing a stage's weights again after an update,
/// for both forms in which products read them. Empty without them, and with ZeRO-3, which quantizes at every
/// use. `of_gathered`: those that the step's first forward gathers, else the others.
std::vector<OperatorCall> fp8_weight_calls(const StageShape& shape, bool of_gathered = false);

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
/// `in_forward`: gathers of the first forward of a step, else those of OPT.
std::vector<OperatorCall> parameter_gather_calls(const StageShape& shape, bool in_forward);
/// True if OPT sums parts of units over tensor ranks, so that ZeRO's pieces decide what a data rank sums.
bool sums_parts_of_units(const StageShape& shape);
/// OPT on data-parallel rank `data_rank`; nothing: on the one for which the others wait.
std::vector<OperatorCall> optimizer_calls(const HeldStages& rank, const RunConfig& config,
                                          std::optional<int> data_rank);

}  // namespace plumbline
