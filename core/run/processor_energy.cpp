#include "core/run/processor_energy.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "core/base/text_input.hpp"
#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// Nothing: it cannot be read.
std::optional<double> joules_in(const fs::path& file) {
  std::ifstream in(file);
  double micro = 0;
  if (!(in >> micro)) return std::nullopt;
  return micro * 1e-6;
}

/// Packages, and memory, which they do not contain. A package contains its cores; psys all of them.
bool is_counted(const std::string& domain) {
  return domain.starts_with("package") || domain == "dram";
}

}  // namespace

ProcessorEnergy::ProcessorEnergy(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> zones;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    zones.push_back(entry->path());
  std::sort(zones.begin(), zones.end());
  why_ = folder + ": no RAPL counter";
  for (const fs::path& zone : zones) {
    // intel-rapl:0, intel-rapl:0:1; AMD's have the same names. intel-rapl-mmio counts the same package again.
    if (!zone.filename().string().starts_with("intel-rapl:") || !is_counted(first_line(zone / "name")))
      continue;
    if (!joules_in(zone / "energy_uj")) {
      why_ = (zone / "energy_uj").string() + ": not readable by this user";
      counters_.clear();
      return;
    }
    counters_.push_back({(zone / "energy_uj").string(), joules_in(zone / "max_energy_range_uj").value_or(0)});
  }
  if (!counters_.empty()) why_.clear();
}

void ProcessorEnergy::begin() {
  for (Counter& counter : counters_) counter.begun = joules_in(counter.file).value_or(std::nan(""));
  begun_ = monotonic_now();
}

void ProcessorEnergy::end() {
  measured_ += monotonic_now() - begun_;
  for (const Counter& counter : counters_) {
    double used = joules_in(counter.file).value_or(std::nan("")) - counter.begun;
    if (used < 0) used += counter.largest;
    joules_ += used;
  }
}

double ProcessorEnergy::watt() const {
  if (counters_.empty() || measured_.value <= 0) return std::numeric_limits<double>::quiet_NaN();
  return joules_ / measured_.value;
}

}  // namespace plumbline
