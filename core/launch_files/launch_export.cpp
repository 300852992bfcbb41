#include "core/launch_files/launch_export.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/megatron/bridge_export.hpp"
#include "core/launch_files/megatron/megatron_export.hpp"
#include "core/launch_files/torch/deepspeed_export.hpp"
#include "core/launch_files/torch/titan/torchtitan_export.hpp"

namespace plumbline {

namespace {

/// Whole hosts, or one of all ranks.
ExportNodes nodes_of(std::int64_t world, std::int64_t gpus_per_host) {
  const std::int64_t node = world % gpus_per_host == 0 ? gpus_per_host : world;
  return {world / node, node};
}

}  // namespace

std::string export_launch(const RunConfig& config, const std::string& framework, int gpus_per_host) {
  const ExportNodes nodes = nodes_of(config.parallel.world_size, gpus_per_host);
  if (framework == "megatron-lm") return to_megatron_lm(config, nodes);
  if (framework == "megatron-bridge") return to_megatron_bridge(config, nodes);
  if (framework == "torchtitan") return to_torchtitan(config, nodes);
  if (framework == "deepspeed") return to_deepspeed(config, nodes);
  throw InputError(
      fmt::format("--to: found \"{}\", expected megatron-lm, megatron-bridge, torchtitan or deepspeed",
                  printable(framework)));
}

}  // namespace plumbline
