#include "core/config/sharding_checks.hpp"

#include <fmt/format.h>

namespace plumbline {
namespace {

/// Of plumbline's own step: bench/training/instances.md.
std::optional<std::string> why_instances_do_not_fit(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int instances = parallel.num_distributed_optimizer_instances;
  if (instances == 1) return std::nullopt;
  const auto found = [&](const std::string& text) {
    return fmt::format("num_distributed_optimizer_instances: found {} {}", instances, text);
  };
  if (parallel.zero_stage == 0)
    return found("with zero_stage 0, which cuts nothing; expected zero_stage 1, 2 or 3");
  if (parallel.copies() % instances != 0) {
    return found(
        fmt::format("with {} ranks that hold the same parameters, expected a divisor", parallel.copies()));
  }
  if (config.machine.software == "plumbline") {
    if (parallel.zero_hpz_partition_size > 1) {
      return found(fmt::format(
          "with zero_hpz_partition_size {}, expected 1: an instance gathers among its ranks alone",
          parallel.zero_hpz_partition_size));
    }
    if (config.spreads_experts())
      return found("with experts spread over ranks, expected expert_model_parallel_size 1");
    return std::nullopt;
  }
  if (config.model.mixture && parallel.expert_copies() % instances != 0) {
    return found(fmt::format("with {} ranks that hold the same experts, expected a divisor",
                             parallel.expert_copies()));
  }
  return std::nullopt;
}

/// What the overlap of data-parallel collectives does not go together with.
std::optional<std::string> why_gathers_do_not_overlap(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.overlap_param_gather.value_or(false) || config.machine.software != "plumbline")
    return std::nullopt;
  if (parallel.zero_stage == 0) {
    return "overlap_param_gather: found true with zero_stage 0, expected zero_stage 1, 2 or 3, which gather "
           "parameters";
  }
  if (parallel.zero_stage == 3) return std::nullopt;
  if (parallel.splits_vocabulary()) {
    return fmt::format(
        "overlap_param_gather: found true with vocab_parallel {} and zero_stage {}, expected zero_stage 3, "
        "or false: the "
        "vocabulary's shards are used before the first forward",
        vocab_parallel_name(parallel.vocab_parallel), parallel.zero_stage);
  }
  if (config.numerics.fp8.on()) {
    return fmt::format(
        "overlap_param_gather: found true with fp8_format and zero_stage {}, expected zero_stage 3, or "
        "false: weights are "
        "quantized whole after the update",
        parallel.zero_stage);
  }
  return std::nullopt;
}

/// Secondary shards of parameters (bench/training/hpz.md).
std::optional<std::string> why_secondary_shards_do_not_fit(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int ranks = parallel.zero_hpz_partition_size;
  if (ranks == 1) return std::nullopt;
  const auto found = [&](const std::string& text) {
    return fmt::format("zero_hpz_partition_size: found {} {}", ranks, text);
  };
  if (config.machine.software != "plumbline")
    return found(fmt::format("with software {}, expected 1, or plumbline", config.machine.software));
  if (parallel.zero_stage != 3) {
    return found(fmt::format("with zero_stage {}, which keeps parameters whole; expected zero_stage 3",
                             parallel.zero_stage));
  }
  if (parallel.copies() % ranks != 0 || parallel.copies() == ranks) {
    return found(fmt::format(
        "with {} ranks that hold the same parameters, expected a divisor that is less: ranks that "
        "gather among fewer",
        parallel.copies()));
  }
  if (parallel.splits_vocabulary()) {
    return found(fmt::format(
        "with vocab_parallel {}, expected none: the vocabulary's shards are used before the first "
        "forward",
        vocab_parallel_name(parallel.vocab_parallel)));
  }
  if (config.spreads_experts())
    return found("with experts spread over ranks, expected expert_model_parallel_size 1");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_sharding_does_not_fit(const RunConfig& config) {
  if (auto reason = why_instances_do_not_fit(config)) return reason;
  if (auto reason = why_gathers_do_not_overlap(config)) return reason;
  return why_secondary_shards_do_not_fit(config);
}

}  // namespace plumbline
