// Configurations and schedules with a cut vocabulary that the tests of analysis/ share.
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
  config.vocab_parallel = parse_vocab_parallel(method);
  config.tensor_model_parallel_size = tensor;
  config.pipeline_model_parallel_size = pipeline;
  config.world_size = tensor * pipeline * data;
  config.global_batch_size = static_cast<std::int64_t>(data) * microbatches;
  config.make_vocab_size_divisible_by = 1;
  return config;
}

/// With transfers and the end of the step, as a run has it.
inline Schedule vocabulary_schedule(const RunConfig& config) {
  ScheduleRequest request;
  request.name = config.pipeline_schedule;
  request.ranks = config.pipeline_model_parallel_size;
  request.microbatches = config.microbatches();
  request.vocab = config.vocab_parallel;
  const bool cut = request.vocab != VocabPasses::none;
  return add_step_end(add_transfers(make_schedule(request)),
                      {config.data_parallel_size() > 1, config.model.tied_embeddings && !cut});
}

}  // namespace plumbline::sample
