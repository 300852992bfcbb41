#include "analysis/time/gradient_overlap.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Time at which each unit of the model is final, per stage and unit, relative to the begin of its rank's ARG
/// (negative: before). Only this difference matters, not the length of the step.
class Finals {
 public:
  Finals(const Schedule& schedule, const std::vector<StageShape>& shapes,
         const std::vector<StageActions>& actions, const StepSummary& summary,
         const std::vector<Seconds>& waits)
      : shapes_(shapes), actions_(actions), waits_(waits), at_(shapes.size()) {
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
      const auto& arg = summary.reductions[static_cast<std::size_t>(schedule.rank_of_stage[stage])];
      const Ticks begin = arg ? arg->start : 0;
      last_.push_back(summary.stages[stage]);
      for (auto* last :
           {&last_.back().weights, &last_.back().inputs, &last_.back().scores, &last_.back().look_up}) {
        if (*last) (*last)->end -= begin;
      }
      started_.push_back(-seconds_of(begin).value);
    }
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) of_stage(stage);
    // A shared output layer's gradient belongs to the embedding of the first stage on the same rank.
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
      if (!shapes[stage].ends.shared_output || !last_[stage].weights) continue;
      const double output = moments(stage, *last_[stage].weights).front();
      for (std::size_t other = 0; other < shapes.size(); ++other) {
        if (shapes[other].place.first && schedule.rank_of_stage[other] == schedule.rank_of_stage[stage]) {
          double& embedding = at_[other][shapes[other].vision.on() ? 1 : 0];
          embedding = std::max(embedding, output);
        }
      }
    }
  }

  const std::vector<double>& of(std::size_t stage) const { return at_[stage]; }

 private:
  /// The `finals` of an action of the stage, without the waits within the action. Counted from its end, since
  /// the second of an overlapped pair starts later than the pair.
  std::vector<double> moments(std::size_t stage, const StepSummary::Last& last) const {
    const ActionTime& time = actions_[stage][static_cast<std::size_t>(last.type)];
    Seconds start = seconds_of(last.end) - time.all;
    const bool deferring = shapes_[stage].ends.defers_output_gradient;
    const ActionType split = deferring ? ActionType::backward_input : ActionType::backward_weight;
    if (last.type == ActionType::backward || last.type == split) start -= waits_[stage];
    std::vector<double> result;
    for (const Seconds final : time.finals) result.push_back((start + final).value);
    return result;
  }

  void of_stage(std::size_t stage) {
    const StageShape& s = shapes_[stage];
    std::vector<double>& at = at_[stage];
    const StepSummary::StageEnds& last = last_[stage];
    at.assign(units_of(s).size(), started_[stage]);
    if (!last.weights) return;
    const std::size_t embedding = s.holds_embedding() ? 1 : 0;
    const std::size_t tower = s.vision.on() ? 1 : 0;
    const std::size_t before = tower + embedding + (s.place.first && s.ends.positions > 0 ? 1 : 0);
    const std::size_t output = before + static_cast<std::size_t>(s.layers + s.own_modules());
    const std::size_t copy = output + (s.holds_output() ? 1 : 0);
    const std::size_t experts = copy + (s.ends.embedding_copy ? 1 : 0);
    std::vector<double> moment = moments(stage, *last.weights);
    std::size_t next = 0;
    if (s.scores()) {
      if (!s.ends.shared_output) at[output] = moment[next];
      ++next;
    }
    if (s.ends.defers_output_gradient) {
      moment = moments(stage, *last.inputs);
      next = 0;
    }
    const std::int64_t dense = s.exchanges_rows() ? s.dense_layers() : 0;
    const bool both = last.weights->type == ActionType::backward || s.ends.defers_output_gradient;
    const auto looked_up = [&](double final) {  // by a module
      if (s.ends.embedding_copy) at[copy] = final;
      if (s.ends.tied && !s.ends.shared_output) at[output] = std::max(at[output], final);
    };
    for (std::int64_t layer = s.layers + s.own_modules(); layer-- > 0;) {
      at[before + static_cast<std::size_t>(layer)] = moment[next];
      if (s.exchanges_rows() && layer >= dense)
        at[experts + static_cast<std::size_t>(layer - dense)] = moment[next];
      ++next;
      if (layer >= s.layers && both) looked_up(moment[next++]);
    }
    if (s.vocabulary.carries) shards(stage);
    if (!both && last.inputs && s.own_modules() > 0) {
      const std::vector<double> inputs = moments(stage, *last.inputs);
      for (std::int64_t module = 0; module < s.own_modules(); ++module)
        looked_up(inputs[static_cast<std::size_t>(module)]);
    }
    const std::size_t from = s.vocabulary.split ? embedding : 0;
    if (before == from || !last.inputs) return;
    moment = moments(stage, *last.inputs);
    // A tower is the first unit, and final last.
    for (std::size_t i = from + tower; i < before; ++i) at[i] = moment[moment.size() - before + i - tower];
    if (tower > 0) at.front() = moment.back();
  }

  void shards(std::size_t stage) {
    std::vector<double>& at = at_[stage];
    const StepSummary::StageEnds& last = last_[stage];
    if (last.look_up) at.front() = moments(stage, *last.look_up).front();
    if (!last.scores) return;
    const StageShape& s = shapes_[stage];
    const std::size_t spread = s.exchanges_rows() ? static_cast<std::size_t>(s.layers - s.dense_layers()) : 0;
    double& output = s.ends.tied ? at.front() : at[at.size() - 1 - spread];
    output = std::max(output, moments(stage, *last.scores).front());
  }

  const std::vector<StageShape>& shapes_;
  const std::vector<StageActions>& actions_;
  const std::vector<Seconds>& waits_;
  std::vector<StepSummary::StageEnds> last_;
  std::vector<double> started_;  // the step, by stage
  std::vector<std::vector<double>> at_;
};

/// One reduction of a rank: when it can start.
struct Reduction {
  double ready = 0;
  std::size_t stage = 0;
  const PricedBucket* bucket = nullptr;
  double seconds() const { return bucket->seconds; }
};

bool earlier(const Reduction& a, const Reduction& b) {
  return a.ready < b.ready;
}

/// Records the spans of `reduction`, which is done at `end` after the rank waited `waited` for it.
void note(const Reduction& reduction, double end, double waited, std::vector<LaneSpan>& lanes) {
  const PricedBucket& bucket = *reduction.bucket;
  waited = std::clamp(waited, 0.0, bucket.seconds);
  const double middle = end - bucket.between;
  const double late = std::min(waited, bucket.between);
  lanes.push_back({bucket.group, {end - bucket.seconds}, {middle}, {waited - late}});
  if (bucket.between > 0) lanes.push_back({Group::between_instances, {middle}, {end}, {late}});
}

/// All in progress at once, one after another on their lane. Returns the wait of ARG, which begins at 0.
double on_a_lane(std::vector<Reduction> reductions, std::vector<LaneSpan>& lanes) {
  std::stable_sort(reductions.begin(), reductions.end(), earlier);
  double done = 0;
  double lane = reductions.empty() ? 0 : reductions.front().ready;
  for (const Reduction& reduction : reductions) {
    lane = std::max(lane, reduction.ready) + reduction.seconds();
    note(reduction, lane, lane - done, lanes);
    done = std::max(done, lane);
  }
  return done;
}

/// One after another; each start waits for the one before. Returns the wait of ARG, which begins at 0.
double one_at_a_time(std::vector<Reduction> reductions, std::vector<Seconds>& last_backward,
                     std::vector<LaneSpan>& lanes) {
  std::stable_sort(reductions.begin(), reductions.end(), earlier);
  std::optional<double> done;  // of the one in progress
  double copy = 0;
  double shift = 0;  // of the action that continues
  const Reduction* before = nullptr;
  for (const Reduction& reduction : reductions) {
    if (before == nullptr || before->stage != reduction.stage) shift = 0;
    double now = reduction.ready + shift;
    if (done) {
      note(*before, *done, *done - now, lanes);
      now = std::max(now, *done) + copy;
    }
    const double waited = now - reduction.ready - shift;
    last_backward[reduction.stage].value += waited;
    shift += waited;
    done = now + reduction.seconds();
    copy = reduction.bucket->copy;
    before = &reduction;
  }
  if (!done) return 0;
  note(*before, *done, *done, lanes);
  return std::max(0.0, *done) + copy;
}

}  // namespace

std::vector<std::vector<PricedBucket>> priced_buckets(
    const RunConfig& config, const StageKinds& kinds,
    const std::function<Seconds(const OperatorCall&)>& price) {
  // Layers are alike: most buckets repeat the one before.
  std::optional<OperatorCall> last;
  double last_seconds = 0;
  const auto priced = [&](const OperatorCall& call) {
    const CollectiveCall& c = *call.collective();
    const CollectiveCall* l = last ? last->collective() : nullptr;
    const bool same = l != nullptr && l->kind == c.kind && l->group == c.group && l->ranks == c.ranks &&
                      l->stride == c.stride && l->elements == c.elements && last->type == call.type &&
                      last->count == call.count && last->share == call.share;
    if (!same) {
      last = call;
      last_seconds = price(call).value;
    }
    return last_seconds;
  };
  std::vector<std::vector<PricedBucket>> result(kinds.shapes.size());
  for (std::size_t stage = 0; stage < kinds.shapes.size(); ++stage) {
    const StageShape& shape = kinds.shapes[stage];
    const std::size_t first = kinds.first_stage[kinds.of_stage[stage]];
    if (first < stage) {
      result[stage] = result[first];
      continue;
    }
    // Frameworks reduce into their gradient buffer: nothing is copied.
    const bool copies = shape.sharding.zero == 1 && shape.traits.copies_reduced_pieces;
    for (GradientBucket& bucket : gradient_buckets(shape, config.parallel.dp.bucket_size)) {
      PricedBucket of{{}, bucket.at_end, bucket.reduce.collective()->group, priced(bucket.reduce), 0, 0};
      if (copies) of.copy = price(piece_copy(shape, bucket)).value;
      if (bucket.between.elements() > 0) of.between = price(bucket.between).value;
      of.seconds += of.between;
      of.units = std::move(bucket.units);
      result[stage].push_back(std::move(of));
    }
  }
  return result;
}

ReductionCosts reduction_costs(const Schedule& schedule, const std::vector<StageShape>& shapes,
                               const std::vector<std::vector<PricedBucket>>& buckets,
                               const std::vector<StageActions>& actions, const StepSummary& summary,
                               const ReductionCosts& assumed) {
  const Finals finals(schedule, shapes, actions, summary, assumed.last_backward);
  ReductionCosts result{std::vector<Seconds>(shapes.size()), std::vector<Seconds>(shapes.size()), {}};
  for (std::size_t rank = 0; rank < summary.reductions.size(); ++rank) {
    const auto& arg = summary.reductions[rank];
    std::vector<LaneSpan>& lanes = result.lanes.emplace_back();
    if (!arg) continue;
    const double started = -seconds_of(arg->start).value;
    std::vector<Reduction> reductions;
    bool scatters = false;  // else no start waits for the one before
    for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
      if (schedule.rank_of_stage[stage] != static_cast<int>(rank)) continue;
      scatters = shapes[stage].sharding.zero == 1 && shapes[stage].traits.copies_reduced_pieces;
      for (const PricedBucket& bucket : buckets[stage]) {
        double ready = bucket.at_end ? 0 : started;
        for (const std::size_t unit : bucket.units) ready = std::max(ready, finals.of(stage)[unit]);
        reductions.push_back({ready, stage, &bucket});
      }
    }
    const double exposed = scatters ? one_at_a_time(std::move(reductions), result.last_backward, lanes)
                                    : on_a_lane(std::move(reductions), lanes);
    result.reduce_gradients[static_cast<std::size_t>(arg->stage)].value += exposed;
  }
  return result;
}

}  // namespace plumbline
