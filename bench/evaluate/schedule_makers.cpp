#include "bench/evaluate/schedule_makers.hpp"

#include "bench/evaluate/plan.hpp"
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

Schedule alone(const cluster::ScheduleNeed& need, const Costs& costs) {
  ScheduleRequest request;
  request.name = need.name;
  request.ranks = need.pipeline;
  request.microbatches = need.microbatches;
  request.chunks = need.chunks;
  request.vocab = need.vocabulary;
  if (request.vocab != VocabPasses::none) request.vocab_times = mean_times(costs);
  return make_schedule(request);
}

}  // namespace

cluster::ScheduleMakers schedule_makers() {
  return {step_for, alone};
}

}  // namespace plumbline
