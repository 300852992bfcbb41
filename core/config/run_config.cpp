#include "core/config/run_config.hpp"

#include <charconv>
#include <cmath>
#include <string_view>

namespace plumbline {
namespace {

template <class Modules, class Names>
std::string joined(const Modules& modules, const Names& names) {
  std::string text;
  for (const auto& module : names) {
    if (!(modules.*module.member)) continue;
    if (!text.empty()) text += ',';
    text += module.name;
  }
  return text;
}

}  // namespace

Layout RunConfig::layout() const {
  Layout layout;
  layout.tensor = parallel.tensor;
  layout.pipeline = parallel.pipeline;
  layout.data = parallel.copies();
  layout.context = parallel.context;
  if (parallel.hierarchical()) layout.context_heads = parallel.head_ranks();
  if (spreads_experts() || spreads_teacher_experts()) {
    layout.expert = parallel.expert;
    if (parallel.folds_experts()) layout.expert_tensor = parallel.expert_tensor;
  }
  layout.zero_param = parallel.dp.hpz_partition_size;
  if (machine.own_step() && parallel.dp.optimizer_instances > 1)
    layout.optimizer_instance = parallel.state_shards();
  layout.vocab_parallel = parallel.splits_vocabulary();
  if (model.kv_heads > 0 && model.kv_heads < layout.tensor) {
    layout.kv_sharing = layout.tensor / static_cast<int>(model.kv_heads);
  }
  return layout;
}

std::int64_t RunConfig::expert_capacity() const {
  if (!model.mixture || mixture.capacity_factor == 0) return 0;
  const std::int64_t tokens = batch.micro_batch_size * batch.seq_length / parallel.context;
  const double mean =
      static_cast<double>(tokens * model.mixture.top_k) / static_cast<double>(model.mixture.experts);
  return static_cast<std::int64_t>(std::ceil(mean * mixture.capacity_factor));
}

std::optional<double> MixtureConfig::zipf_exponent() const {
  constexpr std::string_view kName = "zipf:";
  if (!routing.starts_with(kName)) return std::nullopt;
  double exponent = 0;
  const char* const stop = routing.data() + routing.size();
  const auto [end, error] = std::from_chars(routing.data() + kName.size(), stop, exponent);
  const bool good = error == std::errc() && end == stop && exponent >= 0 && exponent <= 10;
  return good ? std::optional(exponent) : std::nullopt;
}

int RunConfig::microbatches() const {
  return static_cast<int>(batch.global_batch_size / (batch.micro_batch_size * parallel.data()));
}

std::int64_t RunConfig::prompt_tokens() const {
  if (generation.prompt_length > 0) return generation.prompt_length;
  return batch.seq_length - generation.max_new_tokens;
}

std::int64_t RunConfig::padded_vocab() const {
  const std::int64_t multiple = parallel.make_vocab_size_divisible_by * parallel.vocab_shards();
  return (model.vocab + multiple - 1) / multiple * multiple;
}

std::string to_string(const RecomputeModules& modules) {
  return joined(modules, kRecomputeModules);
}

std::string to_string(const OffloadModules& modules) {
  return modules.any() ? joined(modules, kOffloadModules) : "none";
}

}  // namespace plumbline
