// The toolkit's NVML header is optional, so the used part of it is copied here from nvml.h.
#include "bench/measure/machine/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace plumbline {
namespace {

constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
constexpr int kCorrectedErrors = 0, kUncorrectedErrors = 1, kSinceLoaded = 0;
constexpr unsigned kMostNvlinks = 18;

struct MemoryInfo {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t used = 0;
};

constexpr std::pair<std::uint64_t, const char*> kReasons[] = {
    {0x04, "sw_power_cap"},        {0x08, "hw_slowdown"},         {0x10, "sync_boost"},
    {0x20, "sw_thermal_slowdown"}, {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake_slowdown"}};

}  // namespace

std::vector<std::string> throttle_reasons(std::uint64_t bits) {
  std::vector<std::string> reasons;
  reasons.reserve(std::size(kReasons));
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) != 0) reasons.emplace_back(name);
  }
  return reasons;
}

template <class Function>
Function Nvml::function(const char* name) const {
  return reinterpret_cast<Function>(::dlsym(library_, name));
}

Nvml::Nvml(const std::string& bus, const char* library) {
  library_ = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return;
  const auto init = function<int (*)()>("nvmlInit_v2");
  const auto find = function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || find == nullptr || init() != 0) return;
  begun_ = true;
  if (find(bus.c_str(), &device_) != 0) device_ = nullptr;
}

Nvml::~Nvml() {
  if (begun_) {
    if (const auto shutdown = function<int (*)()>("nvmlShutdown")) shutdown();
  }
  if (library_ != nullptr) ::dlclose(library_);
}

std::optional<NvmlMemory> Nvml::memory() const {
  if (!there()) return std::nullopt;
  const auto ask = function<int (*)(void*, void*)>("nvmlDeviceGetMemoryInfo");
  MemoryInfo info;
  if (ask == nullptr || ask(device_, &info) != 0) return std::nullopt;
  return NvmlMemory{{static_cast<std::int64_t>(info.total)}, {static_cast<std::int64_t>(info.used)}};
}

std::optional<NvmlLook> Nvml::look() const {
  if (!there()) return std::nullopt;
  using Kinded = int (*)(void*, int, unsigned*);
  using Plain = int (*)(void*, unsigned*);
  using Bits = int (*)(void*, unsigned long long*);
  NvmlLook look;
  unsigned value = 0;
  bool told = false;
  const auto clock = function<Kinded>("nvmlDeviceGetClockInfo");
  for (const auto& [kind, member] :
       {std::pair(kSmClock, &NvmlLook::sm_mhz), std::pair(kMemoryClock, &NvmlLook::memory_mhz)}) {
    if (clock == nullptr || clock(device_, kind, &value) != 0) continue;
    look.*member = value;
    told = true;
  }
  if (const auto power = function<Plain>("nvmlDeviceGetPowerUsage");
      power != nullptr && power(device_, &value) == 0) {
    look.watt = value * 1e-3;
    told = true;
  }
  unsigned long long millijoule = 0;
  if (const auto energy = function<Bits>("nvmlDeviceGetTotalEnergyConsumption");
      energy != nullptr && energy(device_, &millijoule) == 0)
    look.joule = static_cast<double>(millijoule) * 1e-3;
  const auto temperature = function<Kinded>("nvmlDeviceGetTemperature");
  if (temperature != nullptr && temperature(device_, kGpuTemperature, &value) == 0) look.celsius = value;
  for (const char* name :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    unsigned long long bits = 0;
    const auto reasons = function<Bits>(name);  // the former is the newer name
    if (reasons == nullptr || reasons(device_, &bits) != 0) continue;
    look.reasons = bits;
    break;
  }
  return told ? std::optional(look) : std::nullopt;
}

void Nvml::add_links_and_errors(NodeHealth& health) const {
  if (!there()) return;
  const auto number = [&](const char* name, int& value) {
    unsigned told = 0;
    const auto ask = function<int (*)(void*, unsigned*)>(name);
    if (ask != nullptr && ask(device_, &told) == 0) value = static_cast<int>(told);
  };
  number("nvmlDeviceGetCurrPcieLinkGeneration", health.pcie_generation);
  number("nvmlDeviceGetCurrPcieLinkWidth", health.pcie_width);
  number("nvmlDeviceGetMaxPcieLinkWidth", health.most_pcie_width);
  const auto errors = function<int (*)(void*, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  for (const auto& [kind, count] : {std::pair(kCorrectedErrors, &health.corrected_errors),
                                    std::pair(kUncorrectedErrors, &health.uncorrected_errors)}) {
    unsigned long long told = 0;
    if (errors != nullptr && errors(device_, kind, kSinceLoaded, &told) == 0)
      *count = static_cast<std::int64_t>(told);
  }
  const auto link = function<int (*)(void*, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
  for (unsigned i = 0; link != nullptr && i < kMostNvlinks; ++i) {
    unsigned active = 0;
    if (link(device_, i, &active) != 0) continue;
    health.nvlinks = std::max(health.nvlinks, 0) + (active == 1 ? 1 : 0);
  }
}

}  // namespace plumbline
