#include "core/backends/nccl/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// What tells messages of one channel apart: the sending stage, the direction and the micro-batch, in the
/// form of the sender's action.
Action as_sent(const Action& action) {
  Action sent = action;
  sent.overlaps_next = false;
  switch (action.type) {
    case ActionType::receive_forward:
      sent.type = ActionType::send_forward;
      sent.stage = static_cast<std::uint16_t>(action.stage - 1);
      break;
    case ActionType::receive_teacher:
      sent.type = ActionType::send_teacher;
      sent.stage = static_cast<std::uint16_t>(action.stage - 1);
      break;
    case ActionType::receive_backward:
      sent.type = ActionType::send_backward;
      sent.stage = static_cast<std::uint16_t>(action.stage + 1);
      break;
    default:
      break;
  }
  return sent;
}

int receiver_stage(const Action& sent) {
  return sent.type == ActionType::send_backward ? sent.stage - 1 : sent.stage + 1;
}

struct Ends {
  std::vector<Action> sent;
  std::vector<Action> received;  // in the form of the sender's action
};

}  // namespace

std::vector<Channel> channels_of(const Schedule& schedule) {
  std::map<Channel, Ends> ends;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      const bool sends = is_send(action.type);
      if (!sends && !is_receive(action.type)) continue;
      const Action message = as_sent(action);
      const Channel channel{schedule.rank_of_stage.at(message.stage),
                            schedule.rank_of_stage.at(static_cast<std::size_t>(receiver_stage(message)))};
      Ends& both = ends[channel];
      (sends ? both.sent : both.received).push_back(message);
    }
  }
  std::vector<Channel> channels;
  for (const auto& [channel, both] : ends) {
    const std::size_t common = std::min(both.sent.size(), both.received.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (both.sent[i] == both.received[i]) continue;
      throw InputError(fmt::format(
          "the schedule's message {} from rank {} to rank {} is sent as {} but received as {}: NCCL knows no "
          "tags, so both ends must come to their messages in one order",
          i + 1, channel.from, channel.to, to_string(both.sent[i]), to_string(both.received[i])));
    }
    if (both.sent.size() != both.received.size()) {
      throw InputError(fmt::format("rank {} sends {} messages to rank {}, which receives {}: they must agree",
                                   channel.from, both.sent.size(), channel.to, both.received.size()));
    }
    channels.push_back(channel);
  }
  return channels;
}

}  // namespace plumbline
