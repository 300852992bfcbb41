#include "bench/ask/launch_text.hpp"

#include "analysis/hardware/hardware.hpp"
#include "core/launch_files/launch_export.hpp"

namespace plumbline {
namespace {

int gpus_per_host(const std::string& hardware) {
  constexpr int kUsual = 8;
  if (hardware.empty()) return kUsual;
  const HardwareProfile profile = load_hardware(hardware);
  if (profile.accelerator() == nullptr) return kUsual;
  const Network& network = profile.accelerator()->constants.network;
  return network.gpus_per_host > 0 ? network.gpus_per_host : network.gpus_per_node;
}

}  // namespace

std::string launch_text(const RunConfig& config, const std::string& framework) {
  return export_launch(config, framework, gpus_per_host(config.machine.hardware));
}

}  // namespace plumbline
