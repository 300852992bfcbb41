#include "bench/plan/schedule_makers.hpp"

#include "bench/plan/mean_times.hpp"
#include "bench/plan/plan.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
namespace {

Schedule alone(const ScheduleNeed& need, const Costs& costs) {
  ScheduleRequest request;
  request.name = need.name;
  request.ranks = need.pipeline;
  request.microbatches = need.microbatches;
  request.chunks = need.chunks;
  request.vocab = need.vocabulary;
  if (request.vocab != VocabPasses::none) request.vocab_times = mean_times(costs, need.pipeline);
  return make_schedule(request);
}

}  // namespace

ScheduleMakers schedule_makers() {
  return {step_for, alone};
}

}  // namespace plumbline
