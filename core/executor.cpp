#include "core/executor.hpp"

#include <cstdint>
#include <utility>

#include "core/error.hpp"

namespace plumbline {
namespace {

/// Sends under way, one slot per (stage, direction): a stage has one send buffer each way.
class PendingSends {
 public:
  explicit PendingSends(int stages) : tickets_(static_cast<std::size_t>(stages) * 2) {}
  Ticket& slot(int stage, bool forward) {
    return tickets_[static_cast<std::size_t>(stage) * 2 + (forward ? 1 : 0)];
  }
  std::vector<Ticket>& all() { return tickets_; }

 private:
  std::vector<Ticket> tickets_;
};

bool writes_forward_buffer(ActionType type) {
  return type == ActionType::forward;
}
bool writes_backward_buffer(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_input;
}

/// World rank of the pipeline rank that holds `stage`, in this rank's own tensor and data coordinates.
int peer_of(const Schedule& schedule, const Layout& layout, int rank, int stage) {
  Coordinates at = layout.coordinates(rank);
  at.pipeline = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
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
    const int stage = action.stage;
    if (writes_forward_buffer(action.type)) communicator.wait(pending.slot(stage, true));
    if (writes_backward_buffer(action.type)) communicator.wait(pending.slot(stage, false));
    const Seconds start = communicator.now() - origin;
    switch (action.type) {
      case ActionType::send_forward: {
        const int to = peer_of(schedule, layout, rank, stage + 1);
        pending.slot(stage, true) = communicator.send(program.send_buffer(action), to, stage * 2);
        break;
      }
      case ActionType::send_backward: {
        const int to = peer_of(schedule, layout, rank, stage - 1);
        pending.slot(stage, false) = communicator.send(program.send_buffer(action), to, stage * 2 + 1);
        break;
      }
      case ActionType::receive_forward: {
        const int from = peer_of(schedule, layout, rank, stage - 1);
        Ticket ticket = communicator.receive(program.receive_buffer(action), from, (stage - 1) * 2);
        communicator.wait(ticket);
        break;
      }
      case ActionType::receive_backward: {
        const int from = peer_of(schedule, layout, rank, stage + 1);
        Ticket ticket = communicator.receive(program.receive_buffer(action), from, (stage + 1) * 2 + 1);
        communicator.wait(ticket);
        break;
      }
      default:
        program.run(action);
        break;
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
