#include "analysis/memory/action_memory.hpp"

#include <fmt/format.h>

#include <vector>

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

namespace {

void replay_action(const StageShape& shape, ActionType type, bool with_extra, const FinalUnits& final_units,
                   ReductionUnderWay& under_way, Replay& replay) {
  if (is_vocabulary_pass(type) && !shape.vocabulary.carries) refuse(type);
  const auto stage = [&] { return StageReplay(shape, type, final_units, under_way, replay); };
  switch (type) {
    case ActionType::forward:
      return stage().forward(with_extra);
    case ActionType::teacher_forward:
      if (!shape.distillation.on) refuse(type);
      return stage().teacher_forward(with_extra);
    case ActionType::input_forward:
      return stage().input_forward(with_extra);
    case ActionType::vocab_forward:
      return stage().vocabulary_forward(with_extra);
    case ActionType::vocab_backward:
      return stage().vocabulary_backward();
    case ActionType::input_backward:
      return stage().input_backward();
    case ActionType::backward:
      return stage().backward();
    case ActionType::backward_input:
      return stage().backward_input();
    case ActionType::backward_weight:
      return stage().backward_weight();
    case ActionType::receive_forward:
      if (shape.distillation.joint)
        return replay.take(Category::communication, TensorBytes(shape).teacher.joint);
      return replay.take(Category::activations, TensorBytes(shape).stream.tensor);
    case ActionType::receive_backward:
      return replay.take(Category::communication, shape.distillation.joint
                                                      ? TensorBytes(shape).teacher.joint
                                                      : TensorBytes(shape).stream.tensor);
    case ActionType::receive_teacher:
      if (!shape.distillation.on) refuse(type);
      return replay.take(Category::teacher, TensorBytes(shape).stream.tensor);
    case ActionType::reduce_gradients:
      return under_way.finish(replay);
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::send_teacher:
    case ActionType::reduce_embedding:
    case ActionType::optimizer:
      return;
  }
  refuse(type);
}

ActionProfile profile_of(const StageShape& shape, ActionType type, bool with_extra,
                         const FinalUnits& final_units, ReductionUnderWay& under_way) {
  if (!shape.traits.own_lists) return framework_action_profile(shape, type);
  Replay replay;
  replay_action(shape, type, with_extra, final_units, under_way, replay);
  return replay.profile();
}

}  // namespace

ActionProfile action_profile(const StageShape& shape, ActionType type, bool with_extra) {
  ReductionUnderWay none;
  return profile_of(shape, type, with_extra, {}, none);
}

ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way) {
  return profile_of(shape, type, true, final_units, under_way);
}

ActionProfile pair_profile(const PairMember& first, const PairMember& second, ReductionUnderWay& under_way) {
  std::array<std::vector<MemoryStep>, 2> steps;
  for (const bool other : {false, true}) {
    const PairMember& member = other ? second : first;
    Replay replay(steps[other ? 1 : 0]);
    replay_action(member.shape, member.type, member.with_extra, member.final_units, under_way, replay);
  }
  Replay both;
  std::array<std::size_t, 2> at{};
  const auto ended = [&](std::size_t member) { return at[member] == steps[member].size(); };
  for (std::size_t turn = 0; !ended(0) || !ended(1);) {
    while (!ended(turn)) {
      const MemoryStep& step = steps[turn][at[turn]++];
      if (step.exchange && !ended(1 - turn)) break;
      both.take(step.category, step.bytes);
    }
    turn = 1 - turn;
  }
  return both.profile();
}

ActionProfile reductions_at_the_end(std::int64_t largest_piece) {
  Replay replay;
  replay.take(Category::gradients, largest_piece);
  replay.give(Category::gradients, largest_piece);
  return replay.profile();
}

}  // namespace plumbline
