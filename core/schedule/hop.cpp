#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

Action half_of(ActionType type, int stage, std::uint32_t microbatch) {
  return {type, false, static_cast<std::uint16_t>(stage), microbatch};
}

/// Is there a stage behind `stage` in the direction, on its route and on another rank?
bool reaches_rank(const Schedule& schedule, int stage, int step) {
  if (step > 0 ? schedule.last_of_route(stage) : schedule.first_of_route(stage)) return false;
  return schedule.crosses_ranks(stage, stage + step);
}

}  // namespace

std::span<const ActionType> computing(Payload payload) {
  static constexpr std::array<ActionType, 4> kComputing = {
      ActionType::forward, ActionType::backward, ActionType::backward_input, ActionType::teacher_forward};
  const std::span<const ActionType> types(kComputing);
  switch (payload) {
    case Payload::activation:
      return types.subspan(0, 1);
    case Payload::gradient:
      return types.subspan(1, 2);
    case Payload::teacher:
      return types.subspan(3, 1);
  }
  return {};
}

Action send_of(const Hop& hop) {
  return half_of(sending(hop.payload), hop.from, hop.microbatch);
}

Action receive_of(const Hop& hop) {
  return half_of(receiving(hop.payload), hop.to(), hop.microbatch);
}

std::optional<Hop> hop_from(const Schedule& schedule, int stage, Payload payload, std::uint32_t microbatch) {
  if (!reaches_rank(schedule, stage, step_of(payload))) return std::nullopt;
  return Hop{stage, payload, microbatch};
}

std::optional<Hop> hop_to(const Schedule& schedule, int stage, Payload payload, std::uint32_t microbatch) {
  if (!reaches_rank(schedule, stage, -step_of(payload))) return std::nullopt;
  return Hop{stage - step_of(payload), payload, microbatch};
}

std::optional<Hop> hop_after(const Schedule& schedule, const Action& action) {
  if (!is_compute(action.type)) return std::nullopt;
  const std::optional<Payload> payload = payload_of(action.type);
  if (!payload || (*payload == Payload::teacher && schedule.joint_teacher)) return std::nullopt;
  return hop_from(schedule, action.stage, *payload, action.microbatch);
}

}  // namespace plumbline
