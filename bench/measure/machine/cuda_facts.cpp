#include "bench/measure/machine/cuda_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/nccl/device_variables.hpp"
#include "core/backends/nccl/shared_gpu.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

/// "2.28.9" → 22809; 0 when it is something else.
int nccl_number(const std::string& version) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (std::sscanf(version.c_str(), "%d.%d.%d", &major, &minor, &patch) != 3) return 0;
  return major * 10000 + minor * 100 + patch;
}

}  // namespace

OrderedJson to_json(const CudaFacts& facts) {
  OrderedJson devices = OrderedJson::array();
  for (const CudaDevice& device : facts.devices) {
    devices.push_back({{"name", device.name},
                       {"capability", device.capability},
                       {"memory_bytes", device.memory.value},
                       {"free_bytes", device.free.value}});
  }
  OrderedJson versions = OrderedJson::object();
  for (const auto& [name, version] : facts.versions) versions[name] = version;
  return {{"problem", facts.problem}, {"devices", std::move(devices)}, {"versions", std::move(versions)}};
}

CudaFacts parse_cuda_facts(std::string_view text) {
  const std::string origin = "what the CUDA program says about itself";
  const auto json = parse_json_object<OrderedJson>(text, origin);
  const OrderedJsonKeys keys(json, origin);
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  CudaFacts facts;
  facts.built = true;
  facts.problem = keys.string("problem");
  for (const OrderedJsonKeys& device : keys.objects("devices")) {
    facts.devices.push_back({device.string("name"), device.string("capability"),
                             Bytes{device.integer("memory_bytes", 0, kMostBytes)},
                             Bytes{device.integer("free_bytes", 0, kMostBytes)}});
  }
  const OrderedJsonKeys versions = keys.object("versions");
  for (const auto& [name, value] : json["versions"].items())
    facts.versions.emplace_back(name, versions.string(name));
  return facts;
}

std::optional<std::string> why_no_cuda(const CudaFacts& facts) {
  if (facts.problem.empty() && !facts.devices.empty()) return std::nullopt;
  return fmt::format("backend: found cuda, but {}; {}use cpu or emulated",
                     facts.problem.empty() ? "there is no GPU here" : facts.problem,
                     facts.remedy.empty() ? "" : facts.remedy + ", or ");
}

void add_cuda(const CudaFacts& facts, int ranks, MachineReport& machine) {
  machine.versions.insert(machine.versions.end(), facts.versions.begin(), facts.versions.end());
  const int devices = static_cast<int>(facts.devices.size());
  if (devices == 0) return;
  machine.gpu = fmt::format("{}, {} MiB", facts.devices[0].name, facts.devices[0].memory.value >> 20);
  if (devices > 1) machine.gpu = fmt::format("{} x {}", devices, machine.gpu);
  // Set by the ranks, whatever the environment said.
  std::erase_if(machine.environment, [](const auto& entry) { return entry.first == kQueuesVariable; });
  machine.environment.emplace_back(kQueuesVariable, kQueues);
  std::sort(machine.environment.begin(), machine.environment.end());
  if (ranks <= devices) return;
  machine.gpu +=
      fmt::format(", shared-gpu: {} ranks on {} {}", ranks, devices, devices == 1 ? "GPU" : "GPUs");
  int nccl = 0;
  for (const auto& [name, version] : facts.versions) {
    if (name == "nccl") nccl = nccl_number(version);
  }
  for (const auto& [name, value] : shared_gpu_settings(0, nccl)) {
    const bool set = std::any_of(machine.environment.begin(), machine.environment.end(),
                                 [&, key = name](const auto& entry) { return entry.first == key; });
    if (!set) machine.environment.emplace_back(name, name == "NCCL_HOSTID" ? "one per rank" : value);
  }
  std::sort(machine.environment.begin(), machine.environment.end());
}

}  // namespace plumbline
