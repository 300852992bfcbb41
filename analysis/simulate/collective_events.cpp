#include "analysis/simulate/collective_events.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// The collectives of one rank, at `kind · micro-batches + micro-batch`.
class RankCollectives {
 public:
  RankCollectives(const Schedule& schedule, int rank)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        one_barrier_(schedule.vocab == VocabPasses::one_barrier),
        first_(schedule.rank_of_stage.front() == rank),
        last_(schedule.rank_of_stage.back() == rank),
        first_stage_(0),
        last_stage_(schedule.stages - 1),
        events_(kVocabularyCalls * microbatches_),
        done_(events_.size(), false) {}

  void done(VocabularyCall call, std::uint32_t microbatch, Seconds end) {
    CollectiveEvent& event = at(call, microbatch);
    event.call = call;
    event.microbatch = microbatch;
    event.start = event.end = event.waited_from = end;
    done_[static_cast<std::size_t>(&event - events_.data())] = true;
  }

  /// Records the rank's arrival at the collectives of this action.
  void came(const Event& event) {
    const std::uint32_t m = event.action.microbatch;
    switch (event.action.type) {
      case ActionType::input_forward:
        comes(VocabularyCall::embedding, m, event.end);
        if (m > 0) break;
        if (!last_) comes(VocabularyCall::hidden, 0, event.start);
        if (!first_) comes(VocabularyCall::embedding_gradient, 0, event.start);
        break;
      case ActionType::forward:
        if (event.action.stage == last_stage_) comes(VocabularyCall::hidden, m, event.end);
        break;
      case ActionType::vocab_forward:
        comes(VocabularyCall::statistics, m, event.end);
        if (!last_) comes(VocabularyCall::hidden, m + 1, event.end);
        break;
      case ActionType::vocab_backward:
        if (!one_barrier_) comes(VocabularyCall::hidden_gradient, m, event.end);
        break;
      case ActionType::backward:
      case ActionType::backward_input:
        if (event.action.stage == first_stage_) comes(VocabularyCall::embedding_gradient, m, event.end);
        break;
      case ActionType::input_backward:
        if (!first_) comes(VocabularyCall::embedding_gradient, m + 1, event.end);
        break;
      default:
        break;
    }
  }

  void waits(const SimulationPlan::CollectiveNode& needed, Ticks from, Ticks until) {
    CollectiveEvent& event = at(needed.call, needed.microbatch);
    if (until <= from || event.waited.value > 0) return;
    event.waited_from = seconds_of(from);
    event.waited = seconds_of(until - from);
  }

  std::vector<CollectiveEvent> take() {
    std::vector<CollectiveEvent> events;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      CollectiveEvent event = events_[i];
      if (!done_[i]) continue;
      if (one_barrier_ && event.call == VocabularyCall::hidden_gradient)
        event.start = std::min(event.end, at(VocabularyCall::statistics, event.microbatch).end);
      events.push_back(event);
    }
    return events;
  }

 private:
  CollectiveEvent& at(VocabularyCall call, std::uint32_t microbatch) {
    return events_[static_cast<std::size_t>(call) * microbatches_ + microbatch];
  }
  void comes(VocabularyCall call, std::uint32_t microbatch, Seconds when) {
    if (microbatch >= microbatches_) return;
    CollectiveEvent& event = at(call, microbatch);
    event.start = std::min(event.end, when);
  }

  std::size_t microbatches_;
  bool one_barrier_;
  bool first_;
  bool last_;
  int first_stage_;
  int last_stage_;
  std::vector<CollectiveEvent> events_;
  std::vector<bool> done_;
};

}  // namespace

std::vector<std::vector<CollectiveEvent>> collective_events(const Schedule& schedule,
                                                            const SimulationPlan& plan,
                                                            const std::vector<Ticks>& ready,
                                                            const std::vector<std::vector<Event>>& ranks) {
  const std::vector<SimulationPlan::CollectiveNode>& collectives = plan.collectives();
  if (collectives.empty()) return {};
  std::vector<RankCollectives> all;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    RankCollectives& mine = all.emplace_back(schedule, rank);
    for (const auto& each : collectives)
      mine.done(each.call, each.microbatch, seconds_of(ready[static_cast<std::size_t>(each.node)]));
    for (const Event& event : ranks[static_cast<std::size_t>(rank)]) mine.came(event);
  }
  std::vector<Ticks> clock(all.size(), 0);
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].lane >= plan.ranks()) continue;
    const auto rank = static_cast<std::size_t>(nodes[i].lane);
    const std::int32_t needed = nodes[i].dependency;
    if (plan.is_collective(nodes[static_cast<std::size_t>(needed)])) {
      const auto found =
          std::lower_bound(collectives.begin(), collectives.end(), needed,
                           [](const auto& collective, std::int32_t node) { return collective.node < node; });
      all[rank].waits(*found, clock[rank], ready[static_cast<std::size_t>(needed)]);
    }
    clock[rank] = ready[i];
  }
  std::vector<std::vector<CollectiveEvent>> events;
  events.reserve(all.size());
  for (RankCollectives& rank : all) events.push_back(rank.take());
  return events;
}

}  // namespace plumbline
