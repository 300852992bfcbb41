#include "core/run/executor.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// Sends in progress, one slot per (stage, payload): a stage has one send buffer for each.
class PendingSends {
 public:
  explicit PendingSends(int stages) : tickets_(static_cast<std::size_t>(stages) * kPayloads) {}
  Ticket& slot(const Hop& hop) { return tickets_[static_cast<std::size_t>(tag_of(hop))]; }
  std::vector<Ticket>& all() { return tickets_; }

 private:
  std::vector<Ticket> tickets_;
};

/// The messages whose send buffer a compute action writes.
std::optional<Hop> send_buffer_of(const Action& action) {
  const std::optional<Payload> payload = payload_of(action.type);
  if (!payload || is_transfer(action.type)) return std::nullopt;
  return Hop{action.stage, *payload, action.microbatch};
}

/// World rank of a pipeline rank, in the tensor and data coordinates of `rank`.
int world_rank(const Layout& layout, int rank, int pipeline_rank) {
  Coordinates at = layout.coordinates(rank);
  at.pipeline = pipeline_rank;
  return layout.rank_of(at);
}

}  // namespace

std::vector<Event> execute(const Schedule& schedule, StageProgram& program, Communicator& communicator,
                           Seconds origin) {
  const Layout& layout = communicator.layout();
  const int rank = communicator.rank();
  const auto& actions = schedule.actions[static_cast<std::size_t>(layout.coordinates(rank).pipeline)];
  PendingSends pending(schedule.stages);
  std::vector<Event> events;
  events.reserve(actions.size());

  for (const Action& action : actions) {
    if (const auto written = send_buffer_of(action)) communicator.wait(pending.slot(*written));
    const Seconds start = communicator.now() - origin;
    if (const auto hop = hop_of(action)) {
      const Channel channel = channel_of(schedule, *hop);
      if (is_send(action.type)) {
        const int to = world_rank(layout, rank, channel.to);
        pending.slot(*hop) = communicator.send(program.send_buffer(action), to, tag_of(*hop));
      } else {
        const int from = world_rank(layout, rank, channel.from);
        Ticket ticket = communicator.receive(program.receive_buffer(action), from, tag_of(*hop));
        communicator.wait(ticket);
      }
    } else {
      program.run(action);
    }
    events.push_back({action, start, communicator.now() - origin});
    program.finished(action);
  }
  for (Ticket& ticket : pending.all()) communicator.wait(ticket);
  return events;
}

Trace gather_trace(const Schedule& schedule, const std::vector<Event>& mine, Communicator& communicator) {
  // Events travel as plain words, one for every action of the rank.
  static_assert(sizeof(Event) == 24 && sizeof(Event) % sizeof(std::int32_t) == 0);
  constexpr auto kWords = static_cast<std::int64_t>(sizeof(Event) / sizeof(std::int32_t));
  const Layout& layout = communicator.layout();
  Trace trace;
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    const int source = layout.rank_of({0, 0, pipeline_rank});
    std::vector<Event> events(schedule.actions[static_cast<std::size_t>(pipeline_rank)].size());
    if (communicator.rank() == source) events = mine;
    communicator.broadcast(Group::world, source,
                           Matrix(events.data(), 1, std::ssize(events) * kWords, DType::int32));
    trace.ranks.push_back(std::move(events));
  }
  return trace;
}

}  // namespace plumbline
