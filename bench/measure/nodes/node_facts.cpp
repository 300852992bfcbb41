#include "bench/measure/nodes/node_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// Sorted; empty where there is no such folder.
std::vector<fs::path> entries(const fs::path& folder, std::string_view beginning = "") {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(beginning)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void add_temperatures(const fs::path& root, NodeHealth& health) {
  const auto add = [&](const fs::path& file) {
    const std::string text = first_line(file);
    if (!text.empty()) health.celsius = std::max(health.celsius, std::atof(text.c_str()) * 1e-3);
  };
  for (const fs::path& zone : entries(root / "class/thermal", "thermal_zone")) add(zone / "temp");
  for (const fs::path& chip : entries(root / "class/hwmon")) {
    for (const fs::path& sensor : entries(chip, "temp")) {
      if (sensor.filename().string().ends_with("_input")) add(sensor);
    }
  }
}

void add_errors(const fs::path& root, NodeHealth& health) {
  const auto add = [](const fs::path& file, std::int64_t& count) {
    const std::string text = first_line(file);
    if (!text.empty()) count = std::max<std::int64_t>(count, 0) + std::atoll(text.c_str());
  };
  for (const fs::path& controller : entries(root / "devices/system/edac/mc", "mc")) {
    add(controller / "ce_count", health.corrected_errors);
    add(controller / "ue_count", health.uncorrected_errors);
  }
}

void add_ports(const fs::path& root, NodeHealth& health) {
  for (const fs::path& device : entries(root / "class/infiniband")) {
    for (const fs::path& port : entries(device / "ports")) {
      const std::string state = first_line(port / "state");  // "4: ACTIVE"
      health.nics.push_back({fmt::format("{} port {}", device.filename().string(), port.filename().string()),
                             std::atof(first_line(port / "rate").c_str()),  // "200 Gb/sec (4X HDR)"
                             state.find("ACTIVE") != std::string::npos});
    }
  }
  for (const fs::path& device : entries(root / "class/net")) {
    std::error_code error;
    if (!fs::exists(device / "device", error)) continue;  // no hardware: loopback, bridges
    const double megabit = std::atof(first_line(device / "speed").c_str());
    health.nics.push_back({device.filename().string(), std::max(0.0, megabit * 1e-3),
                           first_line(device / "operstate") != "down"});
  }
}

}  // namespace

NodeHealth health_of_host(const std::string& root) {
  NodeHealth health;
  add_temperatures(root, health);
  add_errors(root, health);
  add_ports(root, health);
  return health;
}

}  // namespace plumbline
