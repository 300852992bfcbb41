#include "analysis/step/software_of.hpp"

#include <fmt/format.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "core/config/families/tensor_names.hpp"

namespace plumbline {

const Software& software_of(const RunConfig& config) {
  return built_in_profiles().generation(config.machine.software);
}

StepTraits traits_of(const Software& software) {
  return software.own_step ? StepTraits() : kFrameworkTraits;
}

LayersApart layers_apart(const RunConfig& config) {
  if (!config.finetune.canonical()) return {};
  const bool gated = is_gated(config.model.activation);
  if (!software_of(config).own_step) return {true, gated};
  const TensorNames& names = tensor_names(config.model);
  return {names.attention.fused == FusedQkv::none, gated && !names.mlp.up.empty()};
}

std::optional<std::string> why_model_unlisted(const RunConfig& config, const Software& software) {
  if (software.own_step) return std::nullopt;
  if (config.model.hybrid && !software.communication.buckets()) {
    return fmt::format(
        "software: found {} with {}, whose Mamba mixers are predicted as Megatron-Core runs them; expected "
        "one of Megatron-Core's, such as megatron-core or megatron-bridge",
        config.machine.software, config.model.name);
  }
  if (config.batch.images_per_sequence > 0 && !software.communication.buckets()) {
    return fmt::format(
        "software: found {} with images_per_sequence {}, whose vision tower is predicted as Megatron-Bridge "
        "runs it; expected one of Megatron-Core's, such as megatron-bridge",
        config.machine.software, config.batch.images_per_sequence);
  }
  if (!config.model.mixture) return std::nullopt;
  if (software.describes_mixtures() && (software.communication.sharded || config.parallel.dp.zero_stage < 2))
    return std::nullopt;
  return fmt::format(
      "software: found {}{} with {}, a mixture of experts; expected one of Megatron-Core's, with zero_stage "
      "0 or 1, megatron-bridge-fsdp or torchtitan-2025",
      config.machine.software, software.describes_mixtures() ? " with sharded gradients" : "",
      config.model.name);
}

}  // namespace plumbline
