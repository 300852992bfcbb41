#include "core/config/mixture_checks.hpp"

#include <fmt/format.h>

namespace plumbline {

namespace {

/// Whoever cuts experts from the ranks of a stage on their own.
std::optional<std::string> why_experts_are_not_cut(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  const int etp = parallel.effective_expert_tensor();
  const std::int64_t ranks = std::int64_t{etp} * parallel.expert * parallel.pipeline;
  if (model.mixture.experts % parallel.expert != 0) {
    return fmt::format("expert_model_parallel_size: found {}, expected a divisor of the {} experts of {}",
                       parallel.expert, model.mixture.experts, model.name);
  }
  if (model.ffn % etp != 0) {
    return fmt::format(
        "expert_tensor_parallel_size: found {}, expected a divisor of {}, the width of an "
        "expert of {}",
        etp, model.ffn, model.name);
  }
  if (parallel.world_size % ranks != 0) {
    return fmt::format(
        "world_size: found {}, expected a multiple of expert tensor x expert x pipeline parallel size = {} x "
        "{} x {}",
        parallel.world_size, etp, parallel.expert, parallel.pipeline);
  }
  if (parallel.tensor > 1 && !parallel.sequence_parallel) {
    return fmt::format(
        "sequence_parallel: found false with {}, a mixture of experts, on {} tensor ranks and {}; "
        "expected true: every rank sends its own tokens to experts",
        model.name, parallel.tensor,
        config.machine.software == "plumbline" ? fmt::format("expert_tensor_parallel_size {}", etp)
                                               : fmt::format("software {}", config.machine.software));
  }
  return std::nullopt;
}

/// Of the software of others, which spreads experts over ranks.
std::optional<std::string> why_experts_do_not_spread(const RunConfig& config) {
  if (auto reason = why_experts_are_not_cut(config)) return reason;
  if (config.finetune.lora()) {
    return fmt::format("frozen: found lora with {}, a mixture of experts; expected none", config.model.name);
  }
  return std::nullopt;
}

/// Of plumbline's own step (bench/training/expert_parallel.md).
std::optional<std::string> why_own_experts_do_not_spread(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const auto with = [&](const char* key, const auto& found, const auto& expected) {
    return fmt::format("{}: found {} with {} {}; expected {}", key, found,
                       parallel.expert > 1 ? "expert_model_parallel_size" : "expert_tensor_parallel_size",
                       parallel.expert > 1 ? parallel.expert : parallel.effective_expert_tensor(), expected);
  };
  if (parallel.token_dispatcher == TokenDispatcher::flex) {
    return "moe_token_dispatcher_type: found flex, kernels of DeepEP or HybridEP, expected allgather, "
           "alltoall "
           "or auto with software plumbline";
  }
  if (!config.spreads_experts()) return std::nullopt;
  if (parallel.folds_experts()) {
    if (auto reason = why_experts_are_not_cut(config)) return reason;
  } else if (config.model.mixture.experts % parallel.expert != 0) {
    return fmt::format("expert_model_parallel_size: found {}, expected a divisor of the {} experts of {}",
                       parallel.expert, config.model.mixture.experts, config.model.name);
  } else if (parallel.copies() % parallel.expert != 0) {
    return fmt::format(
        "expert_model_parallel_size: found {}, expected a divisor of data x context parallel size, {}",
        parallel.expert, parallel.copies());
  }
  if (parallel.overlap_param_gather.value_or(false) && parallel.zero_stage < 3)
    return with("overlap_param_gather", "true", "false, or zero_stage 3");
  return std::nullopt;
}

/// Keys about what experts drop, which need a capacity, and the capacity itself.
std::optional<std::string> why_capacity_does_not_fit(const RunConfig& config) {
  const MixtureConfig& keys = config.mixture;
  const auto without = [](const char* key, const char* found, const char* expected) {
    return fmt::format(
        "{}: found {} without moe_expert_capacity_factor, so that nothing is dropped; expected {}", key,
        found, expected);
  };
  if (keys.capacity_factor == 0) {
    if (keys.pad_to_capacity) return without("moe_pad_expert_input_to_capacity", "true", "false");
    if (keys.drop_policy != MixtureConfig().drop_policy)
      return without("moe_token_drop_policy", "position", "probs");
    return std::nullopt;
  }
  const auto refused = [&](const std::string& why) {
    return fmt::format("moe_expert_capacity_factor: found {} {}", keys.capacity_factor, why);
  };
  if (!config.model.mixture)
    return refused(fmt::format("with {}, which has no experts; expected none", config.model.name));
  if (config.machine.software != "plumbline") {
    // Filled up to the mean, experts have as many rows as with the balanced routing that is predicted.
    if (keys.capacity_factor == 1 && keys.pad_to_capacity) return std::nullopt;
    return refused(
        fmt::format("with software {}, whose dropped rows are not predicted; expected none, 1 with "
                    "moe_pad_expert_input_to_capacity, or plumbline",
                    config.machine.software));
  }
  if (config.spreads_experts() && config.parallel.token_dispatcher == TokenDispatcher::allgather)
    return refused(
        "with moe_token_dispatcher_type allgather; expected alltoall, which sends rows and no tokens");
  if (config.parallel.folds_experts()) {
    return refused(
        fmt::format("with expert_tensor_parallel_size {} on {} tensor ranks, which choose for a part of the "
                    "tokens each; expected {}",
                    config.parallel.expert_tensor, config.parallel.tensor, config.parallel.tensor));
  }
  const std::int64_t tokens =
      config.batch.micro_batch_size * config.batch.seq_length / config.parallel.context;
  if (config.expert_capacity() > tokens) {
    return refused(
        fmt::format("which is a capacity of {} rows, expected at most the {} tokens of a micro-batch",
                    config.expert_capacity(), tokens));
  }
  return std::nullopt;
}

/// Experts in FP8 (bench/training/fp8.md), whose rows are filled up to a multiple of 16, so that their number varies.
std::optional<std::string> why_fp8_experts_do_not_fit(const RunConfig& config) {
  if (!config.numerics.fp8.on()) return std::nullopt;
  const ModelConfig& model = config.model;
  const auto refused = [&](const std::string& why) {
    return fmt::format("fp8_format: found {} with {}, a mixture of experts, {}",
                       config.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid", model.name, why);
  };
  if (config.spreads_experts() && config.parallel.token_dispatcher == TokenDispatcher::allgather)
    return refused(
        "and moe_token_dispatcher_type allgather; expected alltoall, which sends rows and no tokens");
  if (config.parallel.folds_experts()) {
    return refused(fmt::format("and expert_tensor_parallel_size {} on {} tensor ranks; expected {}",
                               config.parallel.expert_tensor, config.parallel.tensor,
                               config.parallel.tensor));
  }
  const int t = config.parallel.tensor;
  const LatentAttention& latent = model.latent;
  const std::int64_t heads = model.heads / t;
  const std::pair<const char*, std::int64_t> widths[] = {
      {"shared expert's", model.mixture.shared / t},
      {"dense layers' feed-forward", model.mixture.dense_ffn / t},
      {"compressed queries'", latent.query_rank},
      {"compressed keys' and values'", latent.kv_rank},
      {"compression's", latent ? latent.query_rank + latent.kv_rank + latent.rope_dim : 0},
      {"values'", latent ? heads * latent.value_dim : 0},
      {"keys' and values'", latent ? heads * (latent.nope_dim + latent.value_dim) : 0}};
  const std::int64_t rows = config.batch.micro_batch_size * config.batch.seq_length / t;
  if (latent && config.parallel.effective_sequence_parallel() && rows % 16 != 0) {
    return refused(
        fmt::format("latent attention and sequence_parallel, which compresses {} rows per tensor rank; "
                    "expected a multiple of "
                    "16",
                    rows));
  }
  for (const auto& [what, columns] : widths) {
    if (columns % 16 == 0) continue;
    return refused(
        fmt::format("and {} {} columns per tensor rank; expected a multiple of 16", columns, what));
  }
  return std::nullopt;
}

std::optional<std::string> why_routing_does_not_fit(const RunConfig& config) {
  const std::string& routing = config.mixture.routing;
  if (routing == "balanced") return std::nullopt;
  const auto refused = [&](const std::string& why) {
    return fmt::format("moe_routing: found {} {}", routing, why);
  };
  if (!config.model.mixture)
    return refused(fmt::format("with {}, which has no experts; expected balanced", config.model.name));
  if (config.machine.software != "plumbline")
    return refused(fmt::format("with software {}, expected balanced", config.machine.software));
  if (routing != "worst" && !config.mixture.routing_file() && !config.mixture.zipf_exponent())
    return refused("expected balanced, worst, zipf:S with S from 0 to 10, or the path of a .csv");
  return std::nullopt;
}

/// What puts the shared expert's products alongside exchanges of rows (bench/training/overlap.md).
std::optional<std::string> why_shared_expert_does_not_overlap(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.moe_shared_expert_overlap) return std::nullopt;
  const auto found = [](const std::string& with) {
    return "moe_shared_expert_overlap: found true with " + with;
  };
  if (config.machine.software != "plumbline")
    return found(fmt::format("software {}, of which it is not predicted; expected false, or plumbline",
                             config.machine.software));
  if (config.model.mixture.shared == 0)
    return found(fmt::format("{}, which has no shared expert; expected false", config.model.name));
  if (!config.spreads_experts())
    return found("expert_model_parallel_size 1, expected experts that are spread over ranks");
  if (parallel.token_dispatcher == TokenDispatcher::allgather)
    return found("moe_token_dispatcher_type allgather, expected alltoall");
  if (parallel.overlap_moe_expert_parallel_comm)
    return found("overlap_moe_expert_parallel_comm, which hides the same exchanges; expected one of both");
  if (config.recompute.selected().shared_experts)
    return found(
        "shared_experts among recompute_modules, which has no exchange alongside; expected moe, or none of "
        "it");
  return std::nullopt;
}

/// Of plumbline's own step, with a mixture that is trained or a teacher's.
std::optional<std::string> why_own_mixture_does_not_run(const RunConfig& config) {
  if (auto reason = why_own_experts_do_not_spread(config)) return reason;
  const ModelConfig& model = config.model;
  if (config.parallel.effective_tp_comm_overlap()) {
    return fmt::format(
        "tp_comm_overlap: found true with {}, a mixture of experts; expected false: the products of experts "
        "are not cut into pieces",
        model.name);
  }
  if (model.latent && config.parallel.context > 1) {
    return fmt::format("context_parallel_size: found {} with {}, expected 1: its attention is latent",
                       config.parallel.context, model.name);
  }
  return std::nullopt;
}

/// Of a teacher, and of a mixture that learns from one.
std::optional<std::string> why_teacher_does_not_fit(const RunConfig& config) {
  const auto& teacher = config.distillation.teacher;
  if (!teacher || (!teacher->mixture && !config.model.mixture)) return std::nullopt;
  if (config.machine.software != "plumbline") {
    return fmt::format(
        "teacher: found {} with {} and software {}, which distils no mixtures of experts; expected none, or "
        "plumbline",
        teacher->name, config.model.name, config.machine.software);
  }
  if (!teacher->mixture) return std::nullopt;
  if (teacher->latent && teacher->latent.query_rank == 0) {
    return fmt::format("teacher: found {} without q_lora_rank, expected queries that are compressed, too",
                       teacher->name);
  }
  RunConfig evaluated = config;
  evaluated.model = *teacher;
  evaluated.parallel.overlap_param_gather.reset();  // only what is trained is sharded
  return why_own_mixture_does_not_run(evaluated);
}

}  // namespace

std::optional<std::string> why_mixture_does_not_fit(const RunConfig& config) {
  const MixtureConfig& keys = config.mixture;
  const bool losses = keys.aux_loss_coeff != 0 || keys.z_loss_coeff != 0;
  const Mixture& mixture = config.model.mixture;
  if (!mixture.expert_bias && keys.bias_update_rate != MixtureConfig().bias_update_rate) {
    return fmt::format(
        "moe_router_bias_update_rate: found {} with {}, whose experts have no bias; expected no such key",
        keys.bias_update_rate, config.model.name);
  }
  if (auto reason = why_capacity_does_not_fit(config)) return reason;
  if (auto reason = why_routing_does_not_fit(config)) return reason;
  if (auto reason = why_shared_expert_does_not_overlap(config)) return reason;
  if (auto reason = why_teacher_does_not_fit(config)) return reason;
  if (keys.load_balancing != LoadBalancing::aux_loss && keys.aux_loss_coeff == 0) {
    return fmt::format(
        "moe_router_load_balancing_type: found {} without moe_aux_loss_coeff, so that nothing is balanced; "
        "expected a coefficient, or aux_loss",
        keys.load_balancing == LoadBalancing::seq_aux_loss ? "seq_aux_loss" : "global_aux_loss");
  }
  if (!config.model.mixture) {
    if (losses) {
      return fmt::format("{}: found a coefficient with {}, which has no experts; expected 0",
                         keys.aux_loss_coeff != 0 ? "moe_aux_loss_coeff" : "moe_z_loss_coeff",
                         config.model.name);
    }
    if (!config.files.save_routing.empty()) {
      return fmt::format("save_routing: found a path with {}, which has no experts; expected none",
                         config.model.name);
    }
    return std::nullopt;
  }
  if (config.machine.software != "plumbline") return why_experts_do_not_spread(config);
  if (auto reason = why_own_mixture_does_not_run(config)) return reason;
  if (auto reason = why_fp8_experts_do_not_fit(config)) return reason;
  if (config.parallel.context > 1 && keys.aux_loss_coeff != 0 &&
      keys.load_balancing != LoadBalancing::global_aux_loss) {
    return fmt::format(
        "moe_aux_loss_coeff: found {} with {}, a mixture of experts; expected 0 with context_parallel_size > "
        "1, "
        "or moe_router_load_balancing_type global_aux_loss: the load is that of whole sequences",
        keys.aux_loss_coeff, config.model.name);
  }
  return std::nullopt;
}

}  // namespace plumbline
