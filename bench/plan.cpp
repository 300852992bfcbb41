#include "bench/plan.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schedule_text.hpp"
#include "core/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

/// A schedule file must be made for this pipeline and for what the training step can execute.
Schedule load_for(const RunConfig& config) {
  Schedule schedule = drop_transfers(load_schedule(config.pipeline_schedule));
  const int ranks = config.pipeline_model_parallel_size;
  if (schedule.ranks != ranks || schedule.stages != ranks || schedule.microbatches != config.microbatches()) {
    throw InputError(
        fmt::format("{}: found {} ranks, {} stages and {} micro-batches, expected {}, {} and {}: one stage "
                    "per pipeline rank",
                    config.pipeline_schedule, schedule.ranks, schedule.stages, schedule.microbatches, ranks,
                    ranks, config.microbatches()));
  }
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (action.type == ActionType::forward || action.type == ActionType::backward) continue;
      throw InputError(fmt::format("{}: found action {}, expected only F and B besides transfers",
                                   config.pipeline_schedule, to_string(action)));
    }
  }
  return schedule;
}

}  // namespace

Schedule schedule_for(const RunConfig& config) {
  Schedule schedule;
  if (config.pipeline_schedule.ends_with(".csv") || config.pipeline_schedule.ends_with(".json")) {
    schedule = load_for(config);
  } else {
    ScheduleRequest request;
    request.name = config.pipeline_schedule;
    request.ranks = config.pipeline_model_parallel_size;
    request.microbatches = config.microbatches();
    schedule = make_schedule(request);
  }
  // Our executor's sends return at once, so the two directions between neighbours may overlap.
  schedule = add_transfers(schedule, TransferOrder::sends_first);
  schedule = add_step_end(std::move(schedule), {.data_parallel = config.data_parallel_size() > 1,
                                                .tied_embedding = config.model.tied_embeddings});
  validate(schedule);
  return schedule;
}

}  // namespace plumbline
