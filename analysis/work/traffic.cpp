#include "analysis/work/traffic.hpp"

#include <algorithm>

#include "analysis/work/operator_list.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

void count(const std::vector<OperatorCall>& calls, Traffic& traffic) {
  for (const OperatorCall& call : calls) {
    const CollectiveCall* collective = call.collective();
    if (collective == nullptr) continue;
    const CallKind kind = collective->kind;
    if (kind == CallKind::ring_shift && collective->group == Group::context) {
      traffic.messages_sent += call.count;
      traffic.point_to_point_sent += call.bytes() * call.count;
      continue;
    }
    GroupTraffic& group = traffic.of(collective->group);
    const Bytes bytes = call.bytes() * call.count;
    group.calls += call.count;
    if (kind == CallKind::all_reduce) group.all_reduced += bytes;
    if (kind == CallKind::all_gather) group.all_gathered += bytes;
    if (kind == CallKind::reduce_scatter || kind == CallKind::reduce) group.reduce_scattered += bytes;
    if (kind == CallKind::broadcast) group.broadcast += bytes;
    if (kind == CallKind::all_to_all) group.exchanged += bytes;
  }
}

void add(const GroupTraffic& more, std::int64_t times, GroupTraffic& sum) {
  sum.calls += more.calls * times;
  sum.all_reduced += more.all_reduced * times;
  sum.all_gathered += more.all_gathered * times;
  sum.reduce_scattered += more.reduce_scattered * times;
  sum.broadcast += more.broadcast * times;
  sum.exchanged += more.exchanged * times;
}

/// Counts actions first, and prices each kind once.
class RankCounter {
 public:
  RankCounter(const StepModel& model, const RepeatedSchedule& step)
      : schedule_(step.once),
        times_(count_by_stage(step)),
        layout_(model.layout),
        shapes_(model.shapes()),
        teachers_(model.teachers),
        explicit_(has_transfers(step.once)) {}

  /// The collectives of all passes and the messages of one pipeline rank.
  Traffic passes(int rank) const {
    using enum ActionType;
    Traffic traffic;
    for (std::size_t stage = 0; stage < shapes_.size(); ++stage) {
      if (schedule_.rank_of_stage[stage] != rank) continue;
      const StageShape& shape = shapes_[stage];
      const auto of = [&](ActionType type) { return times_[stage][static_cast<std::size_t>(type)]; };
      for (const ActionType type : {forward, backward, backward_input, backward_weight, teacher_forward,
                                    vocab_forward, vocab_backward, input_forward, input_backward}) {
        std::int64_t times = of(type);
        if (times == 0) continue;
        if (type == forward && shape.sharding.keeps_secondary_shards()) {
          count(calls_of(first_forward_work(shape)), traffic);
          --times;
        }
        Traffic once;
        count(calls_of(work_of(type == teacher_forward ? teachers_.at(stage) : shape, type)), once);
        for (std::size_t group = 0; group < once.groups.size(); ++group) {
          add(once.groups[group], times, traffic.groups[group]);
        }
        traffic.messages_sent += once.messages_sent * times;
        traffic.point_to_point_sent += once.point_to_point_sent * times;
      }
      if (shape.vocabulary.carries) count_vocabulary(shape, of(vocab_forward), of(input_forward), traffic);
      const auto sent_here = [&](Payload payload) { return sent(static_cast<int>(stage), payload); };
      const std::int64_t messages = sent_here(Payload::activation) + sent_here(Payload::gradient);
      const std::int64_t teacher_messages = sent_here(Payload::teacher);
      traffic.messages_sent += messages + teacher_messages;
      const std::int64_t teacher = shape.distillation.teacher_hidden;
      const std::int64_t width = shape.stream.hidden + (schedule_.joint_teacher ? teacher : 0);
      traffic.point_to_point_sent.value +=
          (messages * width + teacher_messages * teacher) * shape.stream.rows * shape.numerics.e();
    }
    return traffic;
  }

  void count_vocabulary(const StageShape& shape, std::int64_t scored, std::int64_t embedded,
                        Traffic& traffic) const {
    const VocabularyCollectives calls = vocabulary_collectives(shape, layout_);
    const auto times = [&](OperatorCall call, std::int64_t n) {
      call.count = n;
      if (call.collective()->ranks > 1 && n > 0) count({call}, traffic);
    };
    times(calls.hidden, scored);
    times(calls.statistics, scored);
    times(calls.gradient, scored);
    times(calls.embedding, embedded);
    times(calls.embedding_gradient, embedded);
  }

  bool has(int rank, ActionType type) const {
    for (std::size_t stage = 0; stage < times_.size(); ++stage) {
      if (schedule_.rank_of_stage[stage] == rank && times_[stage][static_cast<std::size_t>(type)] > 0)
        return true;
    }
    return false;
  }

 private:
  /// Messages of one kind that leave a stage; without explicit transfers every result that another rank uses
  /// is one.
  std::int64_t sent(int stage, Payload payload) const {
    const auto of = [&](ActionType type) {
      return times_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(type)];
    };
    if (explicit_) return of(sending(payload));
    std::int64_t messages = 0;
    for (const ActionType type : computing(payload)) {
      if (hop_after(schedule_, {type, false, static_cast<std::uint16_t>(stage), 0})) messages += of(type);
    }
    return messages;
  }

  const Schedule& schedule_;
  ActionCounts times_;  // in the whole step
  const Layout& layout_;
  const std::vector<StageShape>& shapes_;
  const std::vector<StageShape>& teachers_;
  bool explicit_;
};

double share(int members) {
  return static_cast<double>(members - 1) / members;
}

}  // namespace

namespace {

std::vector<std::vector<Traffic>> pipeline_traffic(const StepModel& model, const RepeatedSchedule& step) {
  const RunConfig& config = model.config;
  const Schedule& schedule = step.once;
  const std::vector<StageShape>& shapes = model.shapes();
  const Layout& layout = model.layout;
  const RankCounter counter(model, step);
  std::vector<std::vector<Traffic>> ranks(static_cast<std::size_t>(schedule.ranks));
  for (int pipeline = 0; pipeline < schedule.ranks; ++pipeline) {
    const HeldStages on_rank = stages_on_rank(config, schedule, shapes, pipeline);
    Traffic common = counter.passes(pipeline);
    if (counter.has(pipeline, ActionType::reduce_gradients)) {
      count(reduce_gradients_calls(on_rank, config), common);
    }
    if (counter.has(pipeline, ActionType::reduce_embedding)) count(reduce_embedding_calls(on_rank), common);
    for (const StageShape& s : on_rank.held) {
      if (!s.gathers_in_first_forward()) continue;
      count(parameter_gather_calls(s, true), common);
      count(fp8_weight_calls(s, true), common);
    }
    const bool updates = counter.has(pipeline, ActionType::optimizer);
    // The pieces of those units are all that tells data ranks apart.
    const bool apart =
        updates && std::any_of(on_rank.held.begin(), on_rank.held.end(), [](const StageShape& s) {
          return s.sharding.zero > 0 && sums_parts_of_units(s);
        });
    for (int data = 0; data < (apart ? layout.data : 1); ++data) {
      Traffic traffic = common;
      if (updates) count(optimizer_calls(on_rank, config, data), traffic);
      ranks[static_cast<std::size_t>(pipeline)].push_back(traffic);
    }
  }
  return ranks;
}

}  // namespace

std::vector<std::vector<Traffic>> predict_pipeline_traffic(const RunConfig& config,
                                                           const RepeatedSchedule& step) {
  return pipeline_traffic(StepModel(config, step.once), step);
}

std::vector<Traffic> predict_traffic(const RunConfig& config, const RepeatedSchedule& step) {
  return predict_traffic(StepModel(config, step.once), step);
}

std::vector<Traffic> predict_traffic(const StepModel& model, const RepeatedSchedule& step) {
  const Layout& layout = model.layout;
  std::vector<Traffic> ranks;
  ranks.reserve(static_cast<std::size_t>(layout.world()));
  for (const std::vector<Traffic>& replicas : pipeline_traffic(model, step)) {
    for (int rank = 0; rank < layout.data * layout.tensor; ++rank) {
      const auto data = static_cast<std::size_t>(rank / layout.tensor);  // tensor ranks are neighbours
      ranks.push_back(replicas[replicas.size() == 1 ? 0 : data]);
    }
  }
  return ranks;
}

double ring_bytes(const GroupTraffic& traffic, int members) {
  const auto bytes = [](Bytes b) { return static_cast<double>(b.value); };
  return share(members) * (2 * bytes(traffic.all_reduced) + bytes(traffic.all_gathered) +
                           bytes(traffic.reduce_scattered) + bytes(traffic.exchanged)) +
         bytes(traffic.broadcast);
}

double data_parallel_ring_elements(int zero_stage, double parameters, int data, int microbatches,
                                   double gathers) {
  double passes = 2;
  if (zero_stage == 2) passes = microbatches + 1;
  if (zero_stage == 3) passes = (gathers + 1) * microbatches;
  return passes * parameters * share(data);
}

double tensor_parallel_ring_elements(bool sequence_parallel, double stream, int tensor) {
  return (sequence_parallel ? 10 : 8) * stream * share(tensor);
}

}  // namespace plumbline
