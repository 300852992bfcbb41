#include "core/executor.hpp"

#include <cstring>

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
  }
  for (Ticket& ticket : pending.all()) communicator.wait(ticket);
  return events;
}

Trace gather_trace(const Schedule& schedule, const std::vector<Event>& mine, Communicator& communicator) {
  // Events travel as plain words; every rank pads to the longest list.
  static_assert(sizeof(Event) == 24 && sizeof(Event) % sizeof(std::int32_t) == 0);
  const Layout& layout = communicator.layout();
  std::int32_t longest = static_cast<std::int32_t>(mine.size());
  communicator.all_reduce(Group::world, Matrix(&longest, 1, 1, DType::int32), ReduceOp::max);
  constexpr std::size_t kWords = sizeof(Event) / sizeof(std::int32_t);
  const std::size_t words = 1 + static_cast<std::size_t>(longest) * kWords;
  std::vector<std::int32_t> packed(words);
  packed[0] = static_cast<std::int32_t>(mine.size());
  if (!mine.empty()) std::memcpy(&packed[1], mine.data(), mine.size() * sizeof(Event));
  std::vector<std::int32_t> everyone(words * static_cast<std::size_t>(layout.world()));
  communicator.all_gather(
      Group::world, Matrix(packed.data(), 1, static_cast<std::int64_t>(words), DType::int32),
      Matrix(everyone.data(), 1, static_cast<std::int64_t>(everyone.size()), DType::int32));
  Trace trace;
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    const std::int32_t* at =
        everyone.data() + words * static_cast<std::size_t>(layout.rank_of({0, 0, pipeline_rank}));
    std::vector<Event> events(static_cast<std::size_t>(at[0]));
    if (!events.empty())
      std::memcpy(static_cast<void*>(events.data()), at + 1, events.size() * sizeof(Event));
    trace.ranks.push_back(std::move(events));
  }
  return trace;
}

}  // namespace plumbline
