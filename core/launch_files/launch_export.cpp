#include "core/launch_files/launch_export.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/megatron/bridge_export.hpp"
#include "core/launch_files/megatron/megatron_export.hpp"
#include "core/launch_files/torch/deepspeed_export.hpp"
#include "core/launch_files/torch/torchtitan_export.hpp"

namespace plumbline {

std::string export_launch(const RunConfig& config, const std::string& framework) {
  if (framework == "megatron-lm") return to_megatron_lm(config);
  if (framework == "megatron-bridge") return to_megatron_bridge(config);
  if (framework == "torchtitan") return to_torchtitan(config);
  if (framework == "deepspeed") return to_deepspeed(config);
  throw InputError(
      fmt::format("--to: found \"{}\", expected megatron-lm, megatron-bridge, torchtitan or deepspeed",
                  printable(framework)));
}

}  // namespace plumbline
