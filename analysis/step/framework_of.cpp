#include "analysis/step/framework_of.hpp"

#include <fmt/format.h>

#include "analysis/hardware/profiles.hpp"

namespace plumbline {

const Software* framework_of(const RunConfig& config) {
  if (config.machine.software == "plumbline") return nullptr;
  return &built_in_profiles().generation(config.machine.software);
}

std::optional<std::string> why_mixture_unlisted(const RunConfig& config, const Software& framework) {
  if (!config.model.mixture) return std::nullopt;
  if (framework.mixtures() && !framework.sharded && config.parallel.zero_stage < 2) return std::nullopt;
  return fmt::format(
      "software: found {}{} with {}, a mixture of experts; expected one of Megatron-Core's, with zero_stage "
      "0 or 1",
      config.machine.software, framework.mixtures() ? " with sharded gradients" : "", config.model.name);
}

}  // namespace plumbline
