// Limits of parallel sizes and of the pipeline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/base/one_line.hpp"
#include "core/config/compatibility_features.hpp"
#include "core/config/compatibility_limits.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline::features {

std::optional<std::string> world_size_limit(const C& c) {
  const ParallelConfig& p = c.parallel;
  if (p.world_size % p.model_ranks() == 0) return std::nullopt;
  return fmt::format(
      "world_size: found {}, expected a multiple of tensor x pipeline x context parallel size = {} x {} x "
      "{}; "
      "change world_size (--gpus)",
      p.world_size, p.tensor, p.pipeline, p.context);
}

std::optional<std::string> tensor_limit(const C& c) {
  return why_tensor_split_invalid(c.model, c.parallel.tensor);
}

std::optional<std::string> stages_limit(const C& c) {
  const std::int64_t stages = std::int64_t{c.parallel.pipeline} * c.parallel.pp.virtual_chunks;
  if (c.model.layers >= stages - ends_without_layers(c)) return std::nullopt;
  return fmt::format(
      "pipeline_model_parallel_size: {} stages, expected at most the {} layers of {}: every stage holds one",
      stages, c.model.layers, c.model.name);
}

std::optional<std::string> chunks_limit(const C& c) {
  const std::int64_t ranks = c.parallel.context;
  if (ranks == 1 || c.batch.seq_length % (2 * ranks) == 0) return std::nullopt;
  return fmt::format(
      "context_parallel_size: found {} with seq_length {}, expected a seq_length that is a multiple of 2 x "
      "context_parallel_size = {}: every rank has two chunks of a sequence",
      ranks, c.batch.seq_length, 2 * ranks);
}

std::optional<std::string> hierarchical_limit(const C& c) {
  const ParallelConfig& p = c.parallel;
  const HierarchicalContext& sizes = p.cp.hierarchical;
  if (!p.hierarchical() && sizes.given()) {
    return fmt::format(
        "hierarchical_context_parallel_sizes: found {},{} with cp_comm_type {} and context_parallel_size {}, "
        "expected none: they are those of a2a+p2p",
        sizes.heads, sizes.ring, cp_comm_type_name(p.cp.comm_type), p.context);
  }
  const bool multiply =
      std::int64_t{sizes.heads} * sizes.ring == p.context && sizes.heads > 1 && sizes.ring > 1;
  if (!p.hierarchical() || multiply) return std::nullopt;
  return fmt::format(
      "hierarchical_context_parallel_sizes: found {} with cp_comm_type a2a+p2p, expected two sizes of at "
      "least 2 "
      "that multiply to context_parallel_size {}; with one alone it is a2a or p2p",
      sizes.given() ? fmt::format("{},{}", sizes.heads, sizes.ring) : "none", p.context);
}

std::optional<std::string> exchanged_heads_limit(const C& c) {
  const std::int64_t t = c.parallel.tensor;
  std::int64_t key_heads = std::max<std::int64_t>(1, c.model.kv_heads / t);
  if (const auto& teacher = c.distillation.teacher)
    key_heads = std::gcd(key_heads, std::max<std::int64_t>(1, teacher->kv_heads / t));
  const std::int64_t ranks = c.parallel.head_ranks();
  if (key_heads % ranks == 0) return std::nullopt;
  const bool whole = ranks == c.parallel.context;
  return fmt::format(
      "cp_comm_type: found {} with {} {} and {} key/value heads per tensor rank, expected a multiple of {}; "
      "p2p and "
      "all_gather take any",
      cp_comm_type_name(c.parallel.cp.comm_type),
      whole ? "context_parallel_size" : "an exchange of heads over", ranks, key_heads,
      whole ? "context_parallel_size" : "the first of hierarchical_context_parallel_sizes");
}

std::optional<std::string> instances_limit(const C& c) {
  const int instances = c.parallel.dp.optimizer_instances;
  if (c.parallel.copies() % instances == 0) return std::nullopt;
  return fmt::format(
      "num_distributed_optimizer_instances: found {} with {} ranks that hold the same parameters, expected a "
      "divisor",
      instances, c.parallel.copies());
}

std::optional<std::string> expert_instances_limit(const C& c) {
  const int instances = c.parallel.dp.optimizer_instances;
  if (!c.model.mixture || c.parallel.expert_copies() % instances == 0) return std::nullopt;
  return fmt::format(
      "num_distributed_optimizer_instances: found {} with {} ranks that hold the same experts, expected a "
      "divisor",
      instances, c.parallel.expert_copies());
}

std::optional<std::string> secondary_limit(const C& c) {
  const int ranks = c.parallel.dp.hpz_partition_size;
  const int shards = c.parallel.state_shards();
  if (ranks == 1 || (shards % ranks == 0 && shards != ranks)) return std::nullopt;
  return fmt::format(
      "zero_hpz_partition_size: found {} with {} ranks that hold the same parameters{}, expected a divisor "
      "that is less: ranks that gather among fewer",
      ranks, shards, kInstances.on(c) ? " in an instance" : "");
}

std::optional<std::string> distribution_limit(const C& c) {
  return why_layer_distribution_invalid(c);
}

std::optional<std::string> passes_limit(const C& c) {
  const ScheduleTraits traits = schedule_traits(c.parallel.pp.schedule);
  if (traits.base.empty()) return std::nullopt;
  return fmt::format("pipeline_schedule: found {}, expected {} with vocab_parallel: {}",
                     c.parallel.pp.schedule, traits.base, vocab_parallel_name(traits.vocab));
}

std::optional<std::string> passes_of_schedule_limit(const C& c) {
  if (find_with_passes(c.parallel.pp.schedule, c.parallel.pp.vocab_parallel) != nullptr || !kVocabulary.on(c))
    return std::nullopt;
  std::vector<std::string_view> bases;
  for (const ScheduleTraits& traits : known_schedules()) {
    if (traits.vocab == c.parallel.pp.vocab_parallel) bases.push_back(traits.base);
  }
  return fmt::format("vocab_parallel: found {} with pipeline_schedule {}, expected {}", kVocabulary.found(c),
                     printable(c.parallel.pp.schedule), fmt::join(bases, " or "));
}

std::optional<std::string> vocabulary_limit(const C& c) {
  if (!c.parallel.splits_vocabulary() || c.model.vocab >= c.parallel.vocab_shards()) return std::nullopt;
  return fmt::format(
      "vocab_parallel: found {} with a vocabulary of {}, expected at least one token id for each of the {} "
      "ranks it "
      "is split over (pipeline x tensor)",
      vocab_parallel_name(c.parallel.pp.vocab_parallel), c.model.vocab, c.parallel.vocab_shards());
}

}  // namespace plumbline::features
