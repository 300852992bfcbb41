// Steps whose messages are counted.
#pragma once

#include <ostream>
#include <string>

#include "analysis/work/traffic.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline {

inline void PrintTo(const GroupTraffic& t, std::ostream* out) {
  *out << t.calls << " calls, all-reduced " << t.all_reduced.value << ", all-gathered "
       << t.all_gathered.value << ", reduce-scattered " << t.reduce_scattered.value << ", exchanged "
       << t.exchanged.value;
}

inline Schedule schedule_of(const RunConfig& config, const std::string& name) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = config.parallel.pipeline;
  request.microbatches = config.microbatches();
  const Schedule plain = make_schedule(request);
  const bool tied = config.model.embedding.tied && plain.routes == 1;
  return add_step_end(add_transfers(plain), {config.parallel.data() > 1 || plain.routes > 1, tied});
}

inline RunConfig with(RunConfig config, int tensor, int pipeline, int data, int microbatches) {
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.parallel.world_size = tensor * pipeline * data;
  config.batch.global_batch_size = static_cast<std::int64_t>(data) * microbatches;
  config.parallel.make_vocab_size_divisible_by = 32 / tensor;
  return config;
}

/// Bytes of T·h of tiny_qwen2: 32 elements, fp32.
inline constexpr std::int64_t kStream = std::int64_t{32} * 4;

}  // namespace plumbline
