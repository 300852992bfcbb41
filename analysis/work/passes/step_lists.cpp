// The two tables of a step's calls: plumbline's own, listed call by call, and those of other software.
#include "analysis/work/framework_list.hpp"
#include "analysis/work/passes/stage_passes.hpp"

namespace plumbline {
namespace {

struct StepLists {
  ActionWork (*work)(const StageShape& shape, ActionType type);
  std::vector<OperatorCall> (*reductions)(const HeldStages& rank, const RunConfig& config);
  std::vector<OperatorCall> (*updates)(const HeldStages& rank, const RunConfig& config);
};

constexpr StepLists kOwn{
    passes::own_work, reduce_gradients_calls,
    [](const HeldStages& rank, const RunConfig& config) { return optimizer_calls(rank, config, {}); }};
constexpr StepLists kFramework{
    framework_work, [](const HeldStages& rank, const RunConfig&) { return framework_reduction_calls(rank); },
    [](const HeldStages& rank, const RunConfig&) { return framework_update_calls(rank); }};

const StepLists& lists_of(const StageShape& shape) {
  return shape.traits.own_lists ? kOwn : kFramework;
}

}  // namespace

ActionWork work_of(const StageShape& shape, ActionType type) {
  return lists_of(shape).work(shape, type);
}

std::vector<OperatorCall> step_reduction_calls(const HeldStages& rank, const RunConfig& config) {
  return lists_of(rank.held.front()).reductions(rank, config);
}

std::vector<OperatorCall> step_update_calls(const HeldStages& rank, const RunConfig& config) {
  return lists_of(rank.held.front()).updates(rank, config);
}

}  // namespace plumbline
