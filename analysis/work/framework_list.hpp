// Operators of training frameworks that plumbline describes but does not execute: the calls of their public
// sources, by the traits of analysis/hardware/software.json.
#pragma once

#include <vector>

#include "analysis/work/operator_list.hpp"

namespace plumbline {

/// The work of F, B, I, W, IF, S, T or IB of a stage of other software, for one micro-batch. Operators
/// and bytes: Korthikanti et al. (arXiv:2205.05198 §4) and the public Megatron-LM and torchtitan sources of
/// the generation. Throws InputError for another type.
ActionWork framework_work(const StageShape& shape, ActionType type);
/// The shape with 0 or 1 in place of what framework_work() does not look at: stages that it makes equal have
/// the same work.
StageShape shape_of_work(StageShape shape);

/// ARG: all gradients of the rank in one collective, after the last backward. Empty with parameters sharded
/// layer by layer, whose gradients are scattered during the backward.
std::vector<OperatorCall> framework_reduction_calls(const HeldStages& rank);
/// OPT: one pass over the rank's own elements, then with ZeRO 1 and 2 the gather of the parameters.
std::vector<OperatorCall> framework_update_calls(const HeldStages& rank);
/// Host time at the end of a step that the device waits for, where it does.
struct UpdateLaunches {
  Seconds all{};       // of an optimizer that updates parameter after parameter
  Seconds idle{};      // of it, for reads and the kernel behind each: the device is idle
  Seconds gathered{};  // of numbers of all ranks, a tensor each
};
UpdateLaunches update_launches(const HeldStages& rank);
/// The gathers of OPT alone, whole; those that the first forward overlaps (overlap_param_gather) included.
std::vector<OperatorCall> framework_gather_calls(const HeldStages& rank);
/// ARG and OPT of whatever software the rank's step is of.
std::vector<OperatorCall> step_reduction_calls(const HeldStages& rank, const RunConfig& config);
std::vector<OperatorCall> step_update_calls(const HeldStages& rank, const RunConfig& config);

/// True if the software has the job's FP8 recipe, or FP8 of its own whatever the recipe.
bool takes_recipe(const Software& software, Fp8Recipe recipe);
/// True if layer parameters are gathered in FP8: the software's way, or the job's.
bool gathers_fp8(const StageShape& shape);

/// One layer, for framework_work. `both_gradients`: input and weight gradients are in one action. With
/// tensor_overlap the first pass then contains the products of the second, which overlap with collectives.
enum class LayerPass { forward, backward_input, backward_weight };
void framework_layer(const StageShape& shape, LayerPass pass, std::int64_t window, bool both_gradients,
                     UnitWork& work);
/// Parts of a stage's vision tower besides its layers: the tables in front of them; all mergers, whose
/// results take the place of the images' tokens and are added behind the language model's first layers.
void tower_tables(const StageShape& shape, bool backward, UnitWork& work);
void tower_mergers(const StageShape& shape, bool backward, UnitWork& work);
/// Operators of a layer's forward that run again before its backward.
void framework_recomputation(const StageShape& shape, std::int64_t window, UnitWork& work);

}  // namespace plumbline
