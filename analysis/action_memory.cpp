#include "analysis/action_memory.hpp"

#include <fmt/format.h>

#include "analysis/stage_memory.hpp"
#include "core/error.hpp"

namespace plumbline {

ActionProfile action_profile(const StageShape& shape, ActionType type) {
  ReductionUnderWay none;
  return action_profile(shape, type, {}, none);
}

ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way) {
  Replay replay;
  switch (type) {
    case ActionType::forward:
      StageReplay(shape, type, final_units, under_way, replay).forward();
      break;
    case ActionType::backward:
      StageReplay(shape, type, final_units, under_way, replay).backward();
      break;
    case ActionType::backward_input:
      StageReplay(shape, type, final_units, under_way, replay).backward_input();
      break;
    case ActionType::backward_weight:
      StageReplay(shape, type, final_units, under_way, replay).backward_weight();
      break;
    case ActionType::receive_forward:
      replay.take(Category::activations, TensorBytes(shape).stream);
      break;
    case ActionType::receive_backward:
      replay.take(Category::communication, TensorBytes(shape).stream);
      break;
    case ActionType::reduce_gradients:
      under_way.finish(replay);
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::reduce_embedding:
    case ActionType::optimizer:
      break;
    default:
      throw InputError(
          fmt::format("schedule: action {} has no memory description; expected F, B, I, W, transfers, ARG, "
                      "ARE or OPT; choose a schedule without vocabulary or teacher passes",
                      name_of(type)));
  }
  return replay.profile();
}

}  // namespace plumbline
