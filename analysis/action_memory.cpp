#include "analysis/action_memory.hpp"

#include <fmt/format.h>

#include "analysis/stage_memory.hpp"
#include "core/error.hpp"

namespace plumbline {

namespace {

[[noreturn]] void refuse(ActionType type) {
  throw InputError(fmt::format(
      "schedule: action {} has no memory description; expected F, B, I, W, transfers, ARG, ARE or "
      "OPT, and TF beside a teacher; choose a schedule without vocabulary passes",
      name_of(type)));
}

}  // namespace

ActionProfile action_profile(const StageShape& shape, ActionType type, bool loss_here) {
  ReductionUnderWay none;
  if (type == ActionType::forward || (type == ActionType::teacher_forward && shape.distillation.on)) {
    Replay replay;
    StageReplay stage(shape, type, {}, none, replay);
    if (type == ActionType::forward) {
      stage.forward(loss_here);
    } else {
      stage.teacher_forward(loss_here);
    }
    return replay.profile();
  }
  return action_profile(shape, type, {}, none);
}

ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way) {
  Replay replay;
  switch (type) {
    case ActionType::forward:
      return action_profile(shape, type, true);
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
      if (shape.distillation.joint) {
        replay.take(Category::communication, TensorBytes(shape).joint);
      } else {
        replay.take(Category::activations, TensorBytes(shape).stream);
      }
      break;
    case ActionType::receive_backward:
      replay.take(Category::communication,
                  shape.distillation.joint ? TensorBytes(shape).joint : TensorBytes(shape).stream);
      break;
    case ActionType::teacher_forward:
      if (!shape.distillation.on) refuse(type);
      return action_profile(shape, type, true);
    case ActionType::receive_teacher:
      if (!shape.distillation.on) refuse(type);
      replay.take(Category::teacher, TensorBytes(shape).stream);
      break;
    case ActionType::reduce_gradients:
      under_way.finish(replay);
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::send_teacher:
    case ActionType::reduce_embedding:
    case ActionType::optimizer:
      break;
    default:
      refuse(type);
  }
  return replay.profile();
}

}  // namespace plumbline
