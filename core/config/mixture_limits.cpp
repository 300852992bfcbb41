// Limits about experts, recomputed modules, and modules that predict further tokens.
#include <fmt/format.h>

#include <utility>

#include "core/config/compatibility_features.hpp"
#include "core/config/compatibility_limits.hpp"

namespace plumbline::features {

std::optional<std::string> capacity_limit(const C& c) {
  const std::int64_t tokens = c.batch.micro_batch_size * c.batch.seq_length / c.parallel.context;
  if (!kCapacity.on(c) || c.expert_capacity() <= tokens) return std::nullopt;
  return fmt::format(
      "moe_expert_capacity_factor: found {} which is a capacity of {} rows, expected at most the {} tokens "
      "of a "
      "micro-batch",
      c.mixture.capacity_factor, c.expert_capacity(), tokens);
}

std::optional<std::string> routing_limit(const C& c) {
  const MixtureConfig& keys = c.mixture;
  if (keys.routing == "balanced" || keys.routing == "worst" || keys.routing_file() || keys.zipf_exponent())
    return std::nullopt;
  return fmt::format(
      "moe_routing: found {}, expected balanced, worst, zipf:S with S from 0 to 10, or the path of a .csv",
      keys.routing);
}

std::optional<std::string> other_routing_limit(const C& c) {
  const MixtureConfig& keys = c.mixture;
  if (keys.routing == "balanced" || keys.routing == "real" || keys.zipf_exponent()) return std::nullopt;
  return fmt::format("moe_routing: found {} with software {}, expected balanced, real or zipf:S",
                     keys.routing, c.machine.software);
}

std::optional<std::string> experts_limit(const C& c) {
  const ModelConfig& model = c.model;
  const ParallelConfig& p = c.parallel;
  const bool own = is_own(c);
  if (!model.mixture || (own && !c.spreads_experts())) return std::nullopt;
  const int etp = p.effective_expert_tensor();
  if (model.mixture.experts % p.expert != 0) {
    return fmt::format("expert_model_parallel_size: found {}, expected a divisor of the {} experts of {}",
                       p.expert, model.mixture.experts, model.name);
  }
  if (own && !p.folds_experts()) {  // experts are spread over copies of the model
    if (p.copies() % p.expert == 0) return std::nullopt;
    return fmt::format(
        "expert_model_parallel_size: found {}, expected a divisor of data x context parallel size, {}",
        p.expert, p.copies());
  }
  if (model.ffn % etp != 0) {
    return fmt::format(
        "expert_tensor_parallel_size: found {}, expected a divisor of {}, the width of an expert of {}", etp,
        model.ffn, model.name);
  }
  if (p.world_size % (std::int64_t{etp} * p.expert * p.pipeline) != 0) {
    return fmt::format(
        "world_size: found {}, expected a multiple of expert tensor x expert x pipeline parallel size = {} x "
        "{} x {}",
        p.world_size, etp, p.expert, p.pipeline);
  }
  return std::nullopt;
}

std::optional<std::string> fp8_experts_limit(const C& c) {
  if (!kFp8.on(c) || !kExperts.on(c)) return std::nullopt;
  const ModelConfig& model = c.model;
  const int t = c.parallel.tensor;
  const LatentAttention& latent = model.latent;
  const std::int64_t heads = model.heads / t;
  const std::string found = fmt::format("fp8_format: found {} with {}", kFp8.found(c), mixture_name(c));
  const std::int64_t rows = c.batch.micro_batch_size * c.batch.seq_length / t;
  if (latent && c.parallel.effective_sequence_parallel() && rows % 16 != 0) {
    return fmt::format(
        "{}, latent attention and sequence_parallel, which compresses {} rows per tensor rank; expected a "
        "multiple of "
        "16",
        found, rows);
  }
  const std::pair<const char*, std::int64_t> widths[] = {
      {"shared expert's", model.mixture.shared / t},
      {"dense layers' feed-forward", model.mixture.dense_ffn / t},
      {"compressed queries'", latent.query_rank},
      {"compressed keys' and values'", latent.kv_rank},
      {"compression's", latent ? latent.query_rank + latent.kv_rank + latent.rope_dim : 0},
      {"values'", latent ? heads * latent.value_dim : 0},
      {"keys' and values'", latent ? heads * (latent.nope_dim + latent.value_dim) : 0}};
  for (const auto& [what, columns] : widths) {
    if (columns % 16 == 0) continue;
    return fmt::format("{}, and {} {} columns per tensor rank; expected a multiple of 16", found, columns,
                       what);
  }
  return std::nullopt;
}

std::optional<std::string> modules_limit(const C& c) {
  const RecomputeModules& modules = c.recompute.modules;
  const Mixture& mixture = c.model.mixture;
  const auto lacks = [&](const char* found, const char* why, const char* expected) {
    return fmt::format("recompute_modules: found {} with {}, {}; expected {}", found, c.model.name, why,
                       expected);
  };
  if (modules.mla_up_proj && !c.model.latent)
    return lacks("mla_up_proj", "whose attention is not latent", "none of it");
  if (modules.mlp && mixture && mixture.first_dense == 0)
    return lacks("mlp", "all of whose layers have experts", "moe");
  if (!mixture && (modules.moe_act || modules.moe || modules.shared_experts)) {
    return lacks(modules.moe_act ? "moe_act"
                 : modules.moe   ? "moe"
                                 : "shared_experts",
                 "which has no experts", "none of theirs");
  }
  if (modules.shared_experts && mixture.shared == 0)
    return lacks("shared_experts", "which has no shared expert", "none of it");
  return std::nullopt;
}

std::optional<std::string> offload_modules_limit(const C& c) {
  const OffloadModules& modules = c.offload.modules;
  const auto found = [&](const char* with, const char* expected) {
    return fmt::format("offload_modules: found {} {}; expected {}", to_string(modules), with, expected);
  };
  if (modules.attn_proj && !modules.core_attn)
    return found("without core_attn, whose backward reads the same result", "core_attn as well");
  const bool parts = modules.expert_fc1 || modules.moe_act;
  if (!parts && !modules.fused_group_mlp) return std::nullopt;
  if (!c.model.mixture) return found("with a model that has no experts", "none of theirs");
  if (parts && modules.fused_group_mlp) return found("twice of experts", "fused_group_mlp alone");
  if (c.recompute.selected().moe) return found("with recompute_modules moe", "none of experts");
  return std::nullopt;
}

std::optional<std::string> foreign_model_limit(const C& c) {
  const ModelConfig& m = c.model;
  const char* foreign = nullptr;
  if (m.norms.kind != Norm::rms || m.norms.less_one) {
    foreign = "whose norms are no plain RMSNorm";
  } else if (m.predicted.norms != NormPlaces::before) {
    foreign = "whose blocks norm their results";
  } else if (m.block != Block::sequential) {
    foreign = "whose blocks are parallel";
  } else if (m.position.kind != Positions::rotary || m.position.of_blocks) {
    foreign = "whose positions are not plainly rotary";
  } else if (m.biases.linear || m.biases.output) {
    foreign = "whose linear layers have biases";
  } else if (m.norms.output_rows || m.norms.residual != 0 || m.embedding.norm || m.embedding.scale != 1 ||
             m.multipliers.logits != 1) {
    foreign = "whose ends are other than an embedding, a norm and an output layer";
  }
  if (!kModules.on(c) || foreign == nullptr) return std::nullopt;
  return fmt::format(
      "mtp_num_layers: found {} with {}, {}; expected 0, or a model such as llama or deepseek_v3",
      m.prediction_modules, m.name, foreign);
}

std::optional<std::string> module_tokens_limit(const C& c) {
  if (c.model.prediction_modules < c.batch.seq_length) return std::nullopt;
  return fmt::format("mtp_num_layers: found {} with seq_length {}, expected fewer modules than tokens",
                     c.model.prediction_modules, c.batch.seq_length);
}

std::optional<std::string> module_tensor_limit(const C& c) {
  const std::int64_t t = c.parallel.tensor;
  if (!kModules.on(c) || (c.model.hidden % t == 0 && c.model.kv_heads >= t)) return std::nullopt;
  return fmt::format(
      "mtp_num_layers: found {} with tensor_model_parallel_size {}, expected 0, or a divisor of the hidden "
      "size that is "
      "at most the key/value heads",
      c.model.prediction_modules, t);
}

}  // namespace plumbline::features
