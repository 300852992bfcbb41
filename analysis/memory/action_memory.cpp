#include "analysis/memory/action_memory.hpp"

#include <fmt/format.h>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/memory/stage/stage_memory.hpp"
#include "core/base/error.hpp"

namespace plumbline {

namespace {

[[noreturn]] void refuse(ActionType type) {
  throw InputError(fmt::format(
      "schedule: action {} has no memory description here; expected F, B, I, W, transfers, ARG, ARE and OPT, "
      "TF with a teacher, and IF, S, T and IB with vocab_parallel; choose another schedule",
      name_of(type)));
}

bool is_vocabulary_pass(ActionType type) {
  using enum ActionType;
  return type == input_forward || type == vocab_forward || type == vocab_backward || type == input_backward;
}

}  // namespace

ActionProfile action_profile(const StageShape& shape, ActionType type, bool with_extra) {
  if (shape.framework != nullptr) return framework_action_profile(shape, type);
  ReductionUnderWay none;
  if (is_vocabulary_pass(type) && !shape.vocabulary.carries) refuse(type);
  Replay replay;
  switch (type) {
    case ActionType::forward:
      StageReplay(shape, type, {}, none, replay).forward(with_extra);
      return replay.profile();
    case ActionType::teacher_forward:
      if (!shape.distillation.on) refuse(type);
      StageReplay(shape, type, {}, none, replay).teacher_forward(with_extra);
      return replay.profile();
    case ActionType::input_forward:
      StageReplay(shape, type, {}, none, replay).input_forward(with_extra);
      return replay.profile();
    case ActionType::vocab_forward:
      StageReplay(shape, type, {}, none, replay).vocabulary_forward(with_extra);
      return replay.profile();
    default:
      break;
  }
  return action_profile(shape, type, {}, none);
}

ActionProfile reductions_at_the_end(std::int64_t largest_piece) {
  Replay replay;
  replay.take(Category::gradients, largest_piece);
  replay.give(Category::gradients, largest_piece);
  return replay.profile();
}

ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way) {
  if (shape.framework != nullptr) return framework_action_profile(shape, type);
  Replay replay;
  if (is_vocabulary_pass(type) && !shape.vocabulary.carries) refuse(type);
  switch (type) {
    case ActionType::forward:
    case ActionType::teacher_forward:
    case ActionType::input_forward:
    case ActionType::vocab_forward:
      return action_profile(shape, type, true);
    case ActionType::vocab_backward:
      StageReplay(shape, type, final_units, under_way, replay).vocabulary_backward();
      break;
    case ActionType::input_backward:
      StageReplay(shape, type, final_units, under_way, replay).input_backward();
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
