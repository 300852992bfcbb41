#include "core/run/executor.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// What a message carries.
enum class Payload : std::uint8_t { activation, gradient, teacher };
constexpr int kPayloads = 3;

/// Tells a stage's messages apart.
int tag_of(int sending_stage, Payload payload) {
  return sending_stage * kPayloads + static_cast<int>(payload);
}

/// Sends under way, one slot per (stage, payload): a stage has one send buffer for each.
class PendingSends {
 public:
  explicit PendingSends(int stages) : tickets_(static_cast<std::size_t>(stages) * kPayloads) {}
  Ticket& slot(int stage, Payload payload) {
    return tickets_[static_cast<std::size_t>(tag_of(stage, payload))];
  }
  std::vector<Ticket>& all() { return tickets_; }

 private:
  std::vector<Ticket> tickets_;
};

/// Whose send buffer a compute action of the stage writes.
std::optional<Payload> written_by(ActionType type) {
  switch (type) {
    case ActionType::forward:
      return Payload::activation;
    case ActionType::backward:
    case ActionType::backward_input:
      return Payload::gradient;
    case ActionType::teacher_forward:
      return Payload::teacher;
    default:
      return {};
  }
}

/// What a transfer carries, and how far on the receiving stage is.
struct Route {
  Payload payload;
  int step;
};
Route route_of(ActionType transfer) {
  switch (transfer) {
    case ActionType::send_backward:
    case ActionType::receive_backward:
      return {Payload::gradient, -1};
    case ActionType::send_teacher:
    case ActionType::receive_teacher:
      return {Payload::teacher, 1};
    default:
      return {Payload::activation, 1};
  }
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
    if (const auto payload = written_by(action.type)) communicator.wait(pending.slot(stage, *payload));
    const Seconds start = communicator.now() - origin;
    if (is_send(action.type)) {
      const auto [payload, step] = route_of(action.type);
      const int to = peer_of(schedule, layout, rank, stage + step);
      pending.slot(stage, payload) =
          communicator.send(program.send_buffer(action), to, tag_of(stage, payload));
    } else if (is_receive(action.type)) {
      const auto [payload, step] = route_of(action.type);
      const int from = peer_of(schedule, layout, rank, stage - step);
      Ticket ticket =
          communicator.receive(program.receive_buffer(action), from, tag_of(stage - step, payload));
      communicator.wait(ticket);
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
