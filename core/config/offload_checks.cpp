#include "core/config/offload_checks.hpp"

#include <fmt/format.h>

namespace plumbline {

std::optional<std::string> why_offload_does_not_fit(const RunConfig& config) {
  if (!config.offload.on()) return std::nullopt;
  const std::int64_t layers = config.offload.num_layers;
  const auto refused = [&](const std::string& why) {
    return fmt::format("cpu_offloading_num_layers: found {} with {}", layers, why);
  };
  const ModelConfig& model = config.model;
  if (config.machine.software != "plumbline") {
    return refused(fmt::format("software {}, whose copies to the host are not predicted; expected 0",
                               config.machine.software));
  }
  if (layers >= model.layers) {
    return refused(
        fmt::format("the {} layers of {}, expected fewer: the last layer of a stage stays, since its "
                    "backward comes next",
                    model.layers, model.name));
  }
  if (config.recompute.granularity == Recompute::full) {
    return refused(
        "recompute_granularity full, which keeps inputs of layers alone; expected selective or none");
  }
  if (config.parallel.overlap_moe_expert_parallel_comm)
    return refused("overlap_moe_expert_parallel_comm true, whose actions run in turns; expected 0");
  if (config.distillation.teacher) return refused("a teacher, expected 0: no test has offloaded beside one");
  if (config.numerics.fp8.on())
    return refused("fp8_format, expected 0: what is kept in FP8 stays with its scale on the device");
  if (config.finetune.frozen != Frozen::none)
    return refused("frozen lora, expected 0: what adapters keep is not offloaded");
  if (model.mixture && (config.spreads_experts() || config.mixture.capacity_factor > 0)) {
    return refused(
        "experts whose rows depend on the routing (spread over ranks, or of a capacity), expected 0");
  }
  return std::nullopt;
}

}  // namespace plumbline
