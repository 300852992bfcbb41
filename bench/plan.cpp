#include "bench/plan.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"

namespace plumbline {

Schedule schedule_for(const RunConfig& config) {
  const int ranks = config.pipeline_model_parallel_size;
  const int microbatches = config.microbatches();
  Schedule schedule =
      config.pipeline_schedule == "gpipe" ? gpipe(ranks, microbatches) : one_f_one_b(ranks, microbatches);
  // Our executor's sends return at once, so the two directions between neighbours may overlap.
  schedule = add_transfers(schedule, TransferOrder::sends_first);
  return add_step_end(std::move(schedule), {.data_parallel = config.data_parallel_size() > 1,
                                            .tied_embedding = config.model.tied_embeddings});
}

}  // namespace plumbline
