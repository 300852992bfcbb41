#include "core/run/executor.hpp"

#include <cstdint>
#include <deque>
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

/// Receives in the order of a rank's actions, posted in it or ahead of it.
class PostedReceives {
 public:
  PostedReceives(const Schedule& schedule, const std::vector<Action>& actions, StageProgram& program,
                 Communicator& communicator)
      : schedule_(schedule), actions_(actions), program_(program), communicator_(communicator) {}

  /// Posts those between the action at `position` and the next one that is no transfer.
  void post_after(std::size_t position) {
    for (std::size_t i = position + 1; i < actions_.size() && is_transfer(actions_[i].type); ++i) {
      if (!is_send(actions_[i].type)) tickets_.push_back(post(actions_[i]));
    }
  }
  /// The next one, posted now if it was not.
  void wait(const Action& action) {
    if (tickets_.empty()) tickets_.push_back(post(action));
    Ticket ticket = tickets_.front();
    tickets_.pop_front();
    communicator_.wait(ticket);
  }

 private:
  Ticket post(const Action& action) {
    const Hop hop = hop_of_transfer(action);
    const int from =
        world_rank(communicator_.layout(), communicator_.rank(), channel_of(schedule_, hop).from);
    return communicator_.receive(program_.receive_buffer(action), from, tag_of(hop));
  }

  const Schedule& schedule_;
  const std::vector<Action>& actions_;
  StageProgram& program_;
  Communicator& communicator_;
  std::deque<Ticket> tickets_;
};

}  // namespace

std::vector<Event> execute(const Schedule& schedule, StageProgram& program, Communicator& communicator,
                           Seconds origin, Receives receives) {
  const Layout& layout = communicator.layout();
  const int rank = communicator.rank();
  const auto& actions = schedule.actions[static_cast<std::size_t>(layout.coordinates(rank).pipeline)];
  PendingSends pending(schedule.stages);
  PostedReceives posted(schedule, actions, program, communicator);
  std::vector<Event> events;
  events.reserve(actions.size());

  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (const auto written = send_buffer_of(action)) communicator.wait(pending.slot(*written));
    if (action.overlaps_next && i + 1 < actions.size() && program.runs_pairs()) {
      const Action& other = actions[++i];
      if (const auto written = send_buffer_of(other)) communicator.wait(pending.slot(*written));
      const Seconds start = communicator.now() - origin;
      if (receives == Receives::ahead) posted.post_after(i);
      program.run_pair(action, other, [](const Action&) {});
      const Seconds end = communicator.now() - origin;
      for (const Action& done : {action, other}) {
        events.push_back({done, start, end});
        program.finished(done);
      }
      continue;
    }
    const Seconds start = communicator.now() - origin;
    if (const auto hop = hop_of(action)) {
      if (is_send(action.type)) {
        const int to = world_rank(layout, rank, channel_of(schedule, *hop).to);
        pending.slot(*hop) = communicator.send(program.send_buffer(action), to, tag_of(*hop));
      } else {
        posted.wait(action);
      }
    } else {
      if (receives == Receives::ahead) posted.post_after(i);
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
