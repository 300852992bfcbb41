// Datasheet GPUs: dense peaks (without sparsity), memory and link rates as the vendor prints them. The
// efficiencies are defaults of the roofline, not measurements of these devices.
#include <array>

#include "analysis/hardware.hpp"

namespace plumbline {
namespace {

struct Datasheet {
  const char* name;
  double memory_gib;  // what the device offers, GiB
  double peak_fp32;   // TFLOP/s, fp32 without tensor cores; GEMMs in fp32 storage use this
  double peak_16bit;  // TFLOP/s, fp16/bf16 tensor cores, dense
  double bandwidth;   // GB/s of device memory
  double link;        // GB/s of NVLink in one direction
};

// Sources: NVIDIA V100 datasheet (2020), A100 datasheet (2021), H100 datasheet (2023), H200 datasheet (2024),
// SXM columns. NVLink is printed as the sum of both directions: 300, 600, 900, 900 GB/s.
constexpr std::array<Datasheet, 6> kDatasheets = {{
    {"v100-sxm-16gb", 16, 15.7, 125, 900, 150},
    {"v100-sxm-32gb", 32, 15.7, 125, 900, 150},
    {"a100-sxm-40gb", 40, 19.5, 312, 1555, 300},
    {"a100-sxm-80gb", 80, 19.5, 312, 2039, 300},
    {"h100-sxm-80gb", 80, 66.9, 989.4, 3352, 450},
    {"h200-sxm-141gb", 141, 66.9, 989.4, 4800, 450},
}};

std::vector<HardwareProfile> make_presets() {
  std::vector<HardwareProfile> presets;
  for (const Datasheet& sheet : kDatasheets) {
    HardwareProfile p;
    p.name = sheet.name;
    p.machine = "datasheet";
    p.memory.value = static_cast<std::int64_t>(sheet.memory_gib * static_cast<double>(kGiB.value));
    p.peak_fp32.value = sheet.peak_fp32 * 1e12;
    p.peak_16bit.value = sheet.peak_16bit * 1e12;
    p.memory_bandwidth.value = sheet.bandwidth * 1e9;
    p.launch_overhead.value = 4e-6;
    p.link_latency.value = 8e-6;
    p.link_bandwidth.value = sheet.link * 1e9 * 0.8;  // about what nccl-tests reach on large messages
    presets.push_back(std::move(p));
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

}  // namespace plumbline
