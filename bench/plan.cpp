#include "bench/plan.hpp"

#include <fmt/format.h>

#include "analysis/flops.hpp"
#include "analysis/memory_model.hpp"
#include "core/error.hpp"
#include "core/schedule_text.hpp"
#include "core/validate.hpp"
#include "schedules/generators.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

bool is_file(const std::string& schedule) {
  return schedule.ends_with(".csv") || schedule.ends_with(".json");
}

Schedule load_for(const RunConfig& config) {
  Schedule schedule = drop_transfers(load_schedule(config.pipeline_schedule));
  const int ranks = config.pipeline_model_parallel_size;
  if (schedule.ranks != ranks || schedule.microbatches != config.microbatches()) {
    throw InputError(fmt::format("{}: found {} ranks and {} micro-batches, expected {} and {}",
                                 config.pipeline_schedule, schedule.ranks, schedule.microbatches, ranks,
                                 config.microbatches()));
  }
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (action.type == ActionType::forward || action.type == ActionType::backward ||
          action.type == ActionType::backward_input || action.type == ActionType::backward_weight) {
        continue;
      }
      throw InputError(fmt::format("{}: found action {}, expected only F, B, I and W besides transfers",
                                   config.pipeline_schedule, to_string(action)));
    }
  }
  return schedule;
}

Schedule make_for(const RunConfig& config) {
  ScheduleRequest request;
  request.name = config.pipeline_schedule;
  request.ranks = config.pipeline_model_parallel_size;
  request.microbatches = config.microbatches();
  if (config.virtual_pipeline_chunks > 1) request.chunks = config.virtual_pipeline_chunks;
  return make_schedule(request);
}

/// FLOPs of every stage as times: the order must not depend on the machine that it is made on.
DistillationTimes distillation_times(const RunConfig& config) {
  const Schedule placement = distillation_abeja(config.pipeline_model_parallel_size, 1);
  DistillationTimes times;
  for (const StageShape& shape : stage_shapes(config, placement)) {
    const StageFlops flops = stage_flops(shape);
    times.forward.push_back({flops.forward.value});
    times.backward.push_back({flops.backward.value});
  }
  for (const StageShape& shape : teacher_shapes(config, placement)) {
    times.teacher.push_back({stage_flops(shape).forward.value});
  }
  return times;
}

Schedule with_transfers_and_end(const RunConfig& config, const Schedule& schedule) {
  // Our executor's sends return at once, so the two directions between neighbours may overlap.
  return add_step_end(
      add_transfers(schedule, TransferOrder::sends_first),
      {.data_parallel = config.data_parallel_size() > 1, .tied_embedding = config.model.tied_embeddings});
}

/// bubble-fill with as many cached outputs as the budget allows, one at least: then a run says what is
/// missing.
Schedule fill_within_budget(const RunConfig& config, ScheduleRequest request) {
  const auto made_with = [&](std::int64_t cached) {
    request.cached_outputs = cached;
    return make_schedule(request);
  };
  std::int64_t fits = 1;
  std::int64_t too_many = request.microbatches + std::int64_t{1};
  while (too_many - fits > 1) {
    // All of them first: most budgets are not short.
    const std::int64_t cached =
        too_many > request.microbatches ? request.microbatches : (fits + too_many) / 2;
    const Schedule schedule = with_transfers_and_end(config, made_with(cached));
    (predict_memory(config, schedule).fits(config.memory_budget) ? fits : too_many) = cached;
  }
  return made_with(fits);
}

Schedule distill_for(const RunConfig& config) {
  ScheduleRequest request;
  request.name = config.distillation_schedule;
  request.ranks = config.pipeline_model_parallel_size;
  request.microbatches = config.microbatches();
  if (request.name != "bubble-fill") return make_schedule(request);
  request.distillation = distillation_times(config);
  request.cached_outputs = config.distillation_cache_limit;
  return request.cached_outputs > 0 ? make_schedule(request) : fill_within_budget(config, std::move(request));
}

int rank_of(const Schedule& schedule, int stage) {
  return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
}

/// What the training step asks of a placement beyond what makes a schedule valid. Built-in schedules fulfil
/// it, but for the number of stages.
void check_placement(const RunConfig& config, const Schedule& schedule) {
  const int stages = schedule.stages_per_route();
  const auto fail = [&](const std::string& what) {
    throw InputError(fmt::format("pipeline_schedule: {}: {}", config.pipeline_schedule, what));
  };
  if (stages > config.model.layers) {
    fail(fmt::format("found {} stages, expected at most the {} layers of {}: every stage holds one", stages,
                     config.model.layers, config.model.name));
  }
  if (config.virtual_pipeline_chunks > 1 && stages != schedule.ranks * config.virtual_pipeline_chunks) {
    fail(fmt::format("found {} stages, expected pipeline size x virtual_pipeline_chunks = {} x {}", stages,
                     schedule.ranks, config.virtual_pipeline_chunks));
  }
  const int last_rank = schedule.ranks - 1;
  for (int stage = 0; schedule.routes == 2 && stage < stages; ++stage) {
    // The two copies of a stage reduce their gradients in the mirror group.
    if (rank_of(schedule, stage + stages) == last_rank - rank_of(schedule, stage)) continue;
    fail(fmt::format("found stage {} on rank {} and its copy {} on rank {}, expected the copy on rank {}",
                     stage, rank_of(schedule, stage), stage + stages, rank_of(schedule, stage + stages),
                     last_rank - rank_of(schedule, stage)));
  }
  const int first = rank_of(schedule, 0);
  const int last = rank_of(schedule, stages - 1);
  const bool at_the_ends = (first == 0 && last == last_rank) || (first == last_rank && last == 0);
  if (config.model.tied_embeddings && schedule.routes == 1 && first != last && !at_the_ends) {
    fail(
        fmt::format("found the first stage on rank {} and the last on {}, expected them on one rank or on "
                    "ranks 0 and {}, where tied embeddings are reduced",
                    first, last, last_rank));
  }
}

}  // namespace

Schedule schedule_for(const RunConfig& config) {
  Schedule schedule = config.teacher                      ? distill_for(config)
                      : is_file(config.pipeline_schedule) ? load_for(config)
                                                          : make_for(config);
  check_placement(config, schedule);
  schedule = with_transfers_and_end(config, schedule);
  validate(schedule);
  return schedule;
}

}  // namespace plumbline
