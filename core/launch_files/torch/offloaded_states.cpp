#include "core/launch_files/torch/offloaded_states.hpp"

namespace plumbline {
namespace {

/// True for the host; an argument without effect, or one that is not modelled, becomes a remark.
bool on_host(LaunchArguments& from, const std::string& key, bool works, const char* idle) {
  if (!from.has(key)) return false;
  const std::string device = from.text(key, "none");
  if (device == "none" || device == "None") return false;
  if (device == "nvme") {
    from.not_modelled(key, "states on disks");
    return false;
  }
  if (device != "cpu") from.refuse(key, "none, cpu or nvme");
  if (!works) from.without_effect(key, idle);
  return works;
}

}  // namespace

void set_zero_offload(LaunchArguments& from, const ZeroOffloadNames& names) {
  const std::string stage = from.setting("zero_stage", "0");
  const bool optimizer = on_host(from, names.optimizer, stage != "0", "ZeRO is off");
  const bool params = on_host(from, names.params, stage == "3", "ZeRO 3 alone shards parameters");
  const bool shares = !names.ratio.empty() && from.has(names.ratio);
  if (params) from.set("offload_params", "true", names.params);
  if (!optimizer) {
    if (shares) from.without_effect(names.ratio, "the optimizer's states are on the device");
    return;
  }
  from.set("optimizer_offload_fraction", shares ? from.text(names.ratio, "1") : "1",
           shares ? names.ratio : names.optimizer);
}

void set_fsdp_offload(LaunchArguments& from, std::initializer_list<const char*> switches) {
  for (const char* const key : switches) {
    if (!from.on(key) || from.sets("offload_params")) continue;
    from.set("offload_params", "true", key);
    from.set("optimizer_offload_fraction", "1", key);
  }
}

}  // namespace plumbline
