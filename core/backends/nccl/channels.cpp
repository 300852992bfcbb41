#include "core/backends/nccl/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

struct Ends {
  std::vector<Hop> sent;
  std::vector<Hop> received;
};

}  // namespace

std::vector<Channel> channels_of(const Schedule& schedule) {
  std::map<Channel, Ends> ends;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      const std::optional<Hop> hop = hop_of(action);
      if (!hop) continue;
      Ends& both = ends[channel_of(schedule, *hop)];
      (is_send(action.type) ? both.sent : both.received).push_back(*hop);
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
          i + 1, channel.from, channel.to, to_string(send_of(both.sent[i])),
          to_string(send_of(both.received[i]))));
    }
    if (both.sent.size() != both.received.size()) {
      throw InputError(fmt::format("rank {} sends {} messages to rank {}, which receives {}: they must agree",
                                   channel.from, both.sent.size(), channel.to, both.received.size()));
    }
    channels.push_back(channel);
  }
  return channels;
}

std::vector<Channel> forward_channels(int pipeline_size) {
  std::vector<Channel> channels;
  for (int rank = 0; rank + 1 < pipeline_size; ++rank) channels.push_back({rank, rank + 1});
  return channels;
}

}  // namespace plumbline
