#include "analysis/time/gradient_overlap.hpp"

#include <algorithm>
#include <optional>

#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// The last events of each stage that touch its gradients.
struct LastEvents {
  std::vector<std::optional<Event>> weights;  // B or W
  std::vector<std::optional<Event>> inputs;   // B or I: embedding and positions
  std::vector<std::optional<Event>> scores;   // T: output layer, split over all ranks
  std::vector<std::optional<Event>> look_up;  // IB: embedding, split over all ranks
};

LastEvents last_events(const Trace& trace, std::size_t stages) {
  const std::vector<std::optional<Event>> none(stages);
  LastEvents last{none, none, none, none};
  for (const auto& events : trace.ranks) {
    for (const Event& event : events) {
      const ActionType type = event.action.type;
      const bool both = type == ActionType::backward;
      if (both || type == ActionType::backward_weight) last.weights[event.action.stage] = event;
      if (both || type == ActionType::backward_input) last.inputs[event.action.stage] = event;
      if (type == ActionType::vocab_backward) last.scores[event.action.stage] = event;
      if (type == ActionType::input_backward) last.look_up[event.action.stage] = event;
    }
  }
  return last;
}

/// When each unit of the model is final, per stage and unit.
class Finals {
 public:
  Finals(const Schedule& schedule, const std::vector<StageShape>& shapes,
         const std::vector<StageActions>& actions, const Trace& trace, const std::vector<Seconds>& waits)
      : shapes_(shapes),
        actions_(actions),
        waits_(waits),
        last_(last_events(trace, shapes.size())),
        at_(shapes.size()) {
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) of_stage(stage);
    // A shared output layer's gradient belongs to the embedding of the first stage on the same rank.
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
      if (!shapes[stage].shared_output || !last_.weights[stage]) continue;
      const double output = moments(*last_.weights[stage]).front();
      for (std::size_t other = 0; other < shapes.size(); ++other) {
        if (shapes[other].first && schedule.rank_of_stage[other] == schedule.rank_of_stage[stage]) {
          at_[other][0] = std::max(at_[other][0], output);
        }
      }
    }
  }

  const std::vector<double>& of(std::size_t stage) const { return at_[stage]; }

 private:
  /// The `finals` of an event's action on the clock of the trace, without the waits within the action.
  /// Counted from its end, since the second of an overlapped pair starts later than the pair.
  std::vector<double> moments(const Event& event) const {
    const ActionType type = event.action.type;
    const ActionTime& time = actions_[event.action.stage][static_cast<std::size_t>(type)];
    Seconds start = event.end - time.all;
    if (type == ActionType::backward || type == ActionType::backward_weight) {
      start -= waits_[event.action.stage];
    }
    std::vector<double> result;
    for (const Seconds final : time.finals) result.push_back((start + final).value);
    return result;
  }

  void of_stage(std::size_t stage) {
    const StageShape& s = shapes_[stage];
    std::vector<double>& at = at_[stage];
    at.assign(units_of(s).size(), 0);
    if (!last_.weights[stage]) return;
    const std::size_t embedding = s.holds_embedding() ? 1 : 0;
    const std::size_t before = embedding + (s.first && s.positions > 0 ? 1 : 0);
    std::vector<double> moment = moments(*last_.weights[stage]);
    std::size_t next = 0;
    if (s.scores()) {
      if (!s.shared_output) at.back() = moment[next];
      ++next;
    }
    for (std::int64_t layer = s.layers; layer-- > 0;) {
      at[before + static_cast<std::size_t>(layer)] = moment[next++];
    }
    if (s.vocabulary.carries) shards(stage);
    const std::size_t from = s.vocabulary.split ? embedding : 0;
    if (before == from || !last_.inputs[stage]) return;
    moment = moments(*last_.inputs[stage]);
    for (std::size_t i = from; i < before; ++i) at[i] = moment[moment.size() - before + i];
  }

  void shards(std::size_t stage) {
    std::vector<double>& at = at_[stage];
    if (last_.look_up[stage]) at.front() = moments(*last_.look_up[stage]).front();
    if (!last_.scores[stage]) return;
    double& output = shapes_[stage].tied ? at.front() : at.back();
    output = std::max(output, moments(*last_.scores[stage]).front());
  }

  const std::vector<StageShape>& shapes_;
  const std::vector<StageActions>& actions_;
  const std::vector<Seconds>& waits_;
  LastEvents last_;
  std::vector<std::vector<double>> at_;
};

/// What one reduction of a rank does: when it can start and what it takes.
struct Reduction {
  double ready = 0;
  std::size_t stage = 0;
  double seconds = 0;
  double copy = 0;
};

bool earlier(const Reduction& a, const Reduction& b) {
  return a.ready < b.ready;
}

/// All in progress at once, one after another on their lane. Returns what ARG, from `begin` on, waits for.
double on_a_lane(std::vector<Reduction> reductions, double begin) {
  std::stable_sort(reductions.begin(), reductions.end(), earlier);
  double done = begin;
  double lane = 0;
  for (const Reduction& reduction : reductions) {
    lane = std::max(lane, reduction.ready) + reduction.seconds;
    done = std::max(done, lane);
  }
  return done - begin;
}

/// One after another; each start waits for the one before. Returns what ARG, from `begin` on, waits for.
double one_at_a_time(std::vector<Reduction> reductions, double begin, std::vector<Seconds>& last_backward) {
  std::stable_sort(reductions.begin(), reductions.end(), earlier);
  double done = -1;  // of the one in progress
  double copy = 0;
  double shift = 0;  // of the action that continues
  const Reduction* before = nullptr;
  for (const Reduction& reduction : reductions) {
    if (before == nullptr || before->stage != reduction.stage) shift = 0;
    double now = reduction.ready + shift;
    if (done >= 0) now = std::max(now, done) + copy;
    const double waited = now - reduction.ready - shift;
    last_backward[reduction.stage].value += waited;
    shift += waited;
    done = now + reduction.seconds;
    copy = reduction.copy;
    before = &reduction;
  }
  return done < 0 ? 0 : std::max(0.0, done - begin) + copy;
}

}  // namespace

ReductionCosts reduction_costs(const RunConfig& config, const Schedule& schedule,
                               const std::vector<StageShape>& shapes,
                               const std::vector<StageActions>& actions, const Trace& trace,
                               const ReductionCosts& assumed,
                               const std::function<Seconds(const OperatorCall&)>& price) {
  const Finals finals(schedule, shapes, actions, trace, assumed.last_backward);
  ReductionCosts result{std::vector<Seconds>(shapes.size()), std::vector<Seconds>(shapes.size())};
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const auto& events = trace.ranks[rank];
    const auto arg = std::find_if(events.begin(), events.end(), [](const Event& event) {
      return event.action.type == ActionType::reduce_gradients;
    });
    if (arg == events.end()) continue;
    const double begin = arg->start.value;
    std::vector<Reduction> reductions;
    bool scatters = false;
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
      if (schedule.rank_of_stage[stage] != static_cast<int>(rank)) continue;
      // Frameworks reduce into their gradient buffer: nothing is copied, no start waits for the one before.
      scatters = shapes[stage].zero == 1 && shapes[stage].framework == nullptr;
      for (const GradientBucket& bucket : gradient_buckets(shapes[stage], config.parallel.ddp_bucket_size)) {
        double ready = bucket.at_end ? begin : 0;
        for (const std::size_t unit : bucket.units) ready = std::max(ready, finals.of(stage)[unit]);
        const double copy = scatters ? price(piece_copy(shapes[stage], bucket)).value : 0;
        reductions.push_back({ready, stage, price(bucket.reduce).value, copy});
      }
    }
    const double exposed = scatters ? one_at_a_time(std::move(reductions), begin, result.last_backward)
                                    : on_a_lane(std::move(reductions), begin);
    result.reduce_gradients[arg->action.stage].value += exposed;
  }
  return result;
}

}  // namespace plumbline
