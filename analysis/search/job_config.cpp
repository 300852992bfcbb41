#include "analysis/search/job_config.hpp"

#include <cstdint>

namespace plumbline::cluster {
namespace {

Recompute recompute_of(Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::none:
      return Recompute::none;
    case Recomputation::selective:
      return Recompute::selective;
    case Recomputation::full:
      return Recompute::full;
  }
  return Recompute::none;
}

}  // namespace

void set_job(const Job& job, const std::string& schedule, RunConfig& config) {
  ParallelConfig& parallel = config.parallel;
  parallel.world_size = job.tensor * job.pipeline * job.data;
  parallel.tensor = job.tensor;
  parallel.pipeline = job.pipeline;
  parallel.virtual_chunks = job.chunks;
  parallel.context = job.context;
  parallel.sequence_parallel = job.sequence_parallel;
  parallel.vocab_parallel = job.vocabulary;
  parallel.layer_distribution = job.balanced ? "balanced" : "even";
  parallel.schedule = schedule;
  parallel.zero_stage = job.zero;
  config.batch.micro_batch_size = job.micro_batch;
  config.recompute.granularity = recompute_of(job.recomputation);
  config.recompute.num_layers = static_cast<std::int64_t>(job.recompute_layers);
  config.numerics.grad_dtype = job.half_gradients ? GradDType::same : GradDType::fp32;
}

}  // namespace plumbline::cluster
