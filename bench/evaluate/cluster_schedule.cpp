#include "bench/evaluate/cluster_schedule.hpp"

#include "core/schedule/schedule_traits.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
namespace {

VocabTimes mean_times(const Costs& costs) {
  VocabTimes mean{{0}, {0}, {0}, {0}, {0}, {0}};
  const auto stages = static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    mean.forward += stage.forward / stages;
    mean.backward += stage.backward / stages;
    mean.backward_input += stage.backward_input / stages;
    mean.backward_weight += stage.backward_weight / stages;
    mean.vocab_forward += stage.vocab_forward / stages;
    mean.vocab_backward += stage.vocab_backward / stages;
    mean.input_forward += stage.input_forward / stages;
    mean.input_backward += stage.input_backward / stages;
  }
  return mean;
}

}  // namespace

Schedule make_cluster_schedule(const cluster::ScheduleNeed& need, const Costs& costs) {
  ScheduleRequest request;
  request.name = need.name;
  request.ranks = need.pipeline;
  request.microbatches = need.microbatches;
  request.chunks = need.chunks;
  request.vocab = need.vocabulary;
  if (request.vocab != VocabPasses::none) request.vocab_times = mean_times(costs);
  if (schedule_traits(need.name).order == OrderFrom::zero_bubble_times) {
    ZeroBubbleCosts measured;
    for (const StageCosts& stage : costs.stages) {
      measured.forward.push_back(stage.forward);
      measured.backward_input.push_back(stage.backward_input);
      measured.backward_weight.push_back(stage.backward_weight);
    }
    measured.transfer = costs.transfer;
    measured.memory_limit = need.memory_limit;
    // Attention's scores and dropout masks, two fifths or more of a layer's activations, go with I.
    measured.held_after_input = 0.6;
    request.zero_bubble = measured;
  }
  return make_schedule(request);
}

}  // namespace plumbline
