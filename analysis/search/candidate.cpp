#include "analysis/search/candidate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

const std::vector<ScheduleTraits>& search_schedules() {
  static const std::vector<ScheduleTraits> kSearched = [] {
    std::vector<ScheduleTraits> list;
    for (const ScheduleTraits& traits : known_schedules()) {
      if (traits.searched()) list.push_back(traits);
    }
    std::stable_partition(list.begin(), list.end(),
                          [](const auto& traits) { return traits.name == PipelineConfig().schedule; });
    return list;
  }();
  return kSearched;
}

const ScheduleTraits& search_traits(std::size_t schedule) {
  return search_schedules()[schedule];
}

HierarchicalContext hierarchical_of(const SearchKeys& keys) {
  if (keys.cp_comm_type != CpCommType::a2a_p2p) return {};
  return {keys.head_ranks, keys.context / keys.head_ranks};
}

void set_keys(const SearchKeys& keys, RunConfig& config) {
  ParallelConfig& parallel = config.parallel;
  parallel.world_size = keys.tensor * keys.pipeline * keys.data * keys.context;
  parallel.tensor = keys.tensor;
  parallel.pipeline = keys.pipeline;
  parallel.context = keys.context;
  parallel.cp.comm_type = keys.cp_comm_type;
  parallel.cp.hierarchical = hierarchical_of(keys);
  parallel.expert = keys.expert;
  parallel.expert_tensor = keys.expert_tensor;
  parallel.ep.token_dispatcher = keys.dispatcher;
  parallel.pp.virtual_chunks = keys.chunks;
  parallel.sequence_parallel = keys.sequence_parallel;
  parallel.pp.vocab_parallel = keys.vocabulary;
  parallel.pp.layer_distribution = keys.balanced ? "balanced" : "even";
  parallel.pp.schedule = search_traits(keys.schedule).name;
  parallel.dp.zero_stage = keys.zero;
  config.batch.micro_batch_size = keys.micro_batch;
  config.recompute.granularity = keys.recompute;
  config.recompute.modules = keys.recomputed;
  config.recompute.method = keys.recompute_method;
  config.recompute.num_layers = keys.recompute_layers;
  config.numerics.grad_dtype = keys.half_gradients ? GradDType::same : GradDType::fp32;
}

SearchKeys keys_of(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pp.layer_distribution != "even" && parallel.pp.layer_distribution != "balanced") {
    throw InputError(
        fmt::format("layer_distribution: found {}; expected even or balanced, the only ones that are varied; "
                    "change the key or remove --what-limits",
                    printable(parallel.pp.layer_distribution)));
  }
  SearchKeys keys;
  keys.tensor = parallel.tensor;
  keys.pipeline = parallel.pipeline;
  keys.data = parallel.data();
  keys.context = parallel.context;
  keys.cp_comm_type = parallel.cp.comm_type;
  if (parallel.hierarchical()) keys.head_ranks = parallel.head_ranks();
  keys.expert = parallel.expert;
  keys.expert_tensor = parallel.expert_tensor;
  keys.dispatcher = parallel.ep.token_dispatcher;
  keys.micro_batch = static_cast<int>(config.batch.micro_batch_size);
  keys.chunks = parallel.pp.virtual_chunks;
  keys.recompute = config.recompute.granularity;
  keys.recompute_method = config.recompute.method;
  keys.recompute_layers = static_cast<int>(config.recompute.num_layers);
  keys.recomputed = config.recompute.modules;
  keys.zero = parallel.effective_zero_stage();
  keys.vocabulary = parallel.pp.vocab_parallel;
  keys.sequence_parallel = parallel.effective_sequence_parallel();
  keys.balanced = parallel.pp.layer_distribution == "balanced";
  keys.half_gradients = config.numerics.grad_dtype == GradDType::same;
  const std::string_view chunked = schedule_traits(parallel.pp.schedule).chunked;
  const std::string_view wanted =
      parallel.pp.virtual_chunks > 1 && !chunked.empty() ? chunked : parallel.pp.schedule;
  std::vector<std::string_view> names;
  for (const ScheduleTraits& traits : search_schedules()) names.push_back(traits.name);
  while (keys.schedule < names.size() && names[keys.schedule] != wanted) ++keys.schedule;
  if (keys.schedule == names.size()) {
    throw InputError(fmt::format("pipeline_schedule: found {}, expected one of: {}",
                                 printable(parallel.pp.schedule), fmt::join(names, ", ")));
  }
  return keys;
}

}  // namespace plumbline
