#include "core/config/recompute_checks.hpp"

#include <fmt/format.h>

namespace plumbline {

std::optional<std::string> why_modules_do_not_fit(const RunConfig& config) {
  const RecomputeModules& modules = config.recompute.modules;
  if (modules == kCoreAttention) return std::nullopt;
  const auto refused = [](std::string_view found, const std::string& why) {
    return fmt::format("recompute_modules: found {} with {}", found, why);
  };
  const std::string all = to_string(modules);
  if (config.recompute.granularity != Recompute::selective) {
    return refused(all, fmt::format("recompute_granularity {}, expected selective, or no such key",
                                    config.recompute.granularity == Recompute::full ? "full" : "none"));
  }
  if (config.machine.software != "plumbline") {
    return refused(all, fmt::format("software {}, whose modules are not predicted; expected core_attn",
                                    config.machine.software));
  }
  const ModelConfig& model = config.model;
  const Mixture& mixture = model.mixture;
  if (modules.mla_up_proj && !model.latent)
    return refused("mla_up_proj",
                   fmt::format("{}, whose attention is not latent; expected none of it", model.name));
  if (modules.mlp && mixture && mixture.first_dense == 0)
    return refused("mlp", fmt::format("{}, all of whose layers have experts; expected moe", model.name));
  if (!mixture && (modules.moe_act || modules.moe || modules.shared_experts)) {
    const char* const found = modules.moe_act ? "moe_act" : modules.moe ? "moe" : "shared_experts";
    return refused(found, fmt::format("{}, which has no experts; expected none of theirs", model.name));
  }
  if (modules.shared_experts && mixture.shared == 0)
    return refused("shared_experts",
                   fmt::format("{}, which has no shared expert; expected none of it", model.name));
  if (config.numerics.fp8.on())
    return refused(all, "fp8_format, expected core_attn: what would be computed again is kept in FP8");
  return std::nullopt;
}

}  // namespace plumbline
