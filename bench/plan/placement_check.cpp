#include "bench/plan/placement_check.hpp"

#include <fmt/format.h>

#include <string>

#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline {
namespace {

int rank_of(const Schedule& schedule, int stage) {
  return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
}

}  // namespace

bool copies_embedding(const RunConfig& config) {
  const bool modules = config.model.prediction_modules > 0 && config.machine.own_step();
  return (config.model.embedding.tied || modules) && !config.parallel.splits_vocabulary();
}

void check_placement(const RunConfig& config, const Schedule& schedule) {
  const int stages = schedule.stages_per_route();
  const auto fail = [&](const std::string& what) {
    throw InputError(fmt::format("pipeline_schedule: {}: {}", config.parallel.pp.schedule, what));
  };
  if (stages > config.model.layers + ends_without_layers(config)) {
    fail(fmt::format("found {} stages, expected at most the {} layers of {}: every stage holds one", stages,
                     config.model.layers, config.model.name));
  }
  if (config.parallel.pp.virtual_chunks > 1 && stages != schedule.ranks * config.parallel.pp.virtual_chunks) {
    fail(fmt::format("found {} stages, expected pipeline size x virtual_pipeline_chunks = {} x {}", stages,
                     schedule.ranks, config.parallel.pp.virtual_chunks));
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
  if (config.mixture.balances_globally() && schedule.routes == 2 && config.machine.own_step()) {
    fail(
        "found two routes with moe_router_load_balancing_type global_aux_loss, expected one: the copies of a "
        "layer take different micro-batches at a time");
  }
  if (copies_embedding(config) && schedule.routes == 1 && first != last && !at_the_ends) {
    fail(
        fmt::format("found the first stage on rank {} and the last on {}, expected them on one rank or on "
                    "ranks 0 and {}, where the two copies of the embedding are reduced",
                    first, last, last_rank));
  }
}

}  // namespace plumbline
