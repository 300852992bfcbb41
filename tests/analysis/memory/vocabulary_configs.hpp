// Configurations and schedules with vocabulary parallelism that the tests of analysis/ share.
#pragma once

#include <string>

#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::sample {

/// tiny_qwen2, whose 32 tokens need no padding.
inline RunConfig vocabulary_config(const std::string& method, int tensor, int pipeline, int data,
                                   int microbatches) {
  RunConfig config = tiny_qwen2();
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(method);
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.parallel.world_size = tensor * pipeline * data;
  config.batch.global_batch_size = static_cast<std::int64_t>(data) * microbatches;
  config.parallel.make_vocab_size_divisible_by = 1;
  return config;
}

/// With transfers and the end of the step, as a run has it.
inline Schedule vocabulary_schedule(const RunConfig& config) {
  ScheduleRequest request;
  request.name = config.parallel.pp.schedule;
  request.ranks = config.parallel.pipeline;
  request.microbatches = config.microbatches();
  request.vocab = config.parallel.pp.vocab_parallel;
  const bool split = request.vocab != VocabPasses::none;
  return add_step_end(add_transfers(make_schedule(request)),
                      {config.parallel.data() > 1, config.model.embedding.tied && !split});
}

}  // namespace plumbline::sample
