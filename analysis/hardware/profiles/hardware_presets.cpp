// The accelerators of analysis/hardware/ as hardware profiles, and profiles by name or path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/accelerator_file.hpp"
#include "analysis/hardware/profiles/hardware_nicknames.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

HardwareProfile accelerator_profile(const std::string& name, const Machine& machine) {
  const Device& device = machine.device;
  HardwareProfile p;
  p.name = name;
  p.machine = "constants of analysis/hardware";
  p.kind = Accelerator{name, machine};
  p.memory.value = static_cast<std::int64_t>(device.memory.bytes - device.memory.reserved_bytes);
  const auto bytes = [](double count) { return Bytes{static_cast<std::int64_t>(count)}; };
  p.overhead = {bytes(device.memory.bytes),
                bytes(device.memory.context_bytes),
                bytes(device.memory.library_bytes),
                bytes(device.memory.kernel_bytes),
                {},
                bytes(device.memory.nccl_group_bytes),
                bytes(device.memory.nccl_channel_bytes),
                false};
  p.peak_fp32.value = device.peak_fp32;
  p.peak_16bit.value = device.peak_16bit;
  p.memory_bandwidth.value = device.bandwidth;
  p.link_latency.value = machine.network.node_base_s;
  p.link_bandwidth.value = machine.network.message_bandwidth;
  return p;
}

namespace {

std::vector<HardwareProfile> make_presets() {
  std::vector<HardwareProfile> presets;
  for (const auto& [name, machine] : built_in_profiles().machines) {
    presets.push_back(accelerator_profile(name, machine));
  }
  return presets;
}

const std::vector<HardwareProfile>& presets() {
  static const std::vector<HardwareProfile> kPresets = make_presets();
  return kPresets;
}

}  // namespace

const HardwareProfile* find_hardware_preset(std::string_view name) {
  for (const HardwareProfile& preset : presets()) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

std::vector<std::string> hardware_preset_names() {
  std::vector<std::string> names;
  for (const HardwareProfile& preset : presets()) names.push_back(preset.name);
  return names;
}

HardwareProfile load_hardware(const std::string& preset_or_path) {
  if (const HardwareProfile* preset = find_hardware_preset(preset_or_path)) return *preset;
  if (preset_or_path.find('/') == std::string::npos && preset_or_path.find('.') == std::string::npos) {
    const HardwareNickname nickname = hardware_nickname(preset_or_path);
    if (!nickname.preset.empty()) return *find_hardware_preset(nickname.preset);
    if (!nickname.others.empty()) {
      throw InputError(fmt::format("hardware: found {}, expected one of {}", printable(preset_or_path),
                                   fmt::join(nickname.others, ", ")));
    }
    const std::vector<std::string> names = hardware_preset_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view similar = similar_name(preset_or_path, views);
    throw InputError(fmt::format(
        "hardware: found {}, expected one of {}, an accelerator's file, or a profile written by calibrate{}",
        printable(preset_or_path), fmt::join(names, ", "),
        similar.empty() ? "" : fmt::format("; did you mean {}?", similar)));
  }
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  const std::string text = read_text_file(preset_or_path, kMaxBytes);
  if (describes_accelerator(text)) return parse_accelerator(text, preset_or_path);
  return parse_hardware(text, preset_or_path);
}

}  // namespace plumbline
