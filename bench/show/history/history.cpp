#include "bench/show/history/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLongestNoted = 60;

std::string machine_of(const HistoryFolder& folder) {
  if (folder.records.empty()) return "";
  const MachineReport& machine = folder.records.front().machine;
  return machine.gpu.empty() ? machine.cpu : machine.gpu;
}

std::string version_of(const HistoryFolder& folder) {
  if (folder.records.empty()) return "";
  for (const auto& [name, version] : folder.records.front().machine.versions)
    if (name == "plumbline") return version;
  return "";
}

/// Keys that all cells of each folder share and that are not those of the newest: a line, or nothing.
struct Differences {
  std::string other;      // the reason why a folder is another run
  std::string measuring;  // keys that change no step
};

Differences differences_of(const HistoryFolder& folder, const HistoryFolder& newest,
                           const std::set<std::string>& swept) {
  Differences found;
  const std::map<std::string, std::string> now = shared_values(newest.records);
  for (const auto& [key, value] : shared_values(folder.records)) {
    const auto at = now.find(key);
    if (swept.contains(key) || at == now.end() || at->second == value) continue;
    std::string& line = is_measuring_key(key) ? found.measuring : found.other;
    line += fmt::format("{}{} {} ({} in {})", line.empty() ? "" : ", ", key, printable(value, kLongestNoted),
                        printable(at->second, kLongestNoted), printable(newest.name, kLongestNoted));
  }
  if (machine_of(folder) != machine_of(newest))
    found.other += fmt::format("{}machine {} ({})", found.other.empty() ? "" : ", ",
                               printable(machine_of(folder), kLongestNoted),
                               printable(machine_of(newest), kLongestNoted));
  return found;
}

/// Step at the speed that the profile was calibrated at, if probes know the machine's.
double step_of_record(const Record& record) {
  const double step = record.measurement->time.step.value;
  const bool known = record.probed && record.prediction && record.probed->time.step.value > 0 &&
                     record.prediction->time.step.value > 0;
  return known ? step * (record.prediction->time.step / record.probed->time.step) : step;
}

bool is_probed(const std::vector<HistoryFolder>& folders) {
  return std::all_of(folders.begin(), folders.end(), [](const HistoryFolder& folder) {
    return std::all_of(folder.records.begin(), folder.records.end(), [](const Record& record) {
      return !record.measurement || (record.probed && record.prediction);
    });
  });
}

/// Changes of memory: figures without noise.
void add_memory_changes(const std::vector<HistoryCell>& cells, double tolerance,
                        std::vector<HistoryChange>& changes) {
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    double before = kMissing;
    for (std::size_t folder = 0; folder < cells[cell].peaks.size(); ++folder) {
      const double after = cells[cell].peaks[folder];
      if (!std::isfinite(after) || after <= 0) continue;
      if (std::abs(after / before - 1) > tolerance)
        changes.push_back({true, {cell, folder, before, after, 0}});
      if (!(std::abs(after / before - 1) <= tolerance)) before = after;
    }
  }
}

}  // namespace

bool History::regressed() const {
  std::map<std::pair<std::size_t, bool>, const HistoryChange*> last;
  for (const HistoryChange& change : changes) last[{change.point.series, change.memory}] = &change;
  return std::any_of(last.begin(), last.end(), [](const auto& each) { return each.second->loss(); });
}

History history_of(const std::vector<HistoryFolder>& folders, const ChangeRule& rule) {
  History history;
  if (folders.empty()) return history;
  const HistoryFolder& newest = folders.back();
  std::set<std::string> swept;
  for (const HistoryFolder& folder : folders) swept.merge(varying_keys(folder.records));
  std::vector<HistoryFolder> kept;
  for (const HistoryFolder& folder : folders) {
    const Differences differences = differences_of(folder, newest, swept);
    const std::string name = printable(folder.name, kLongestNoted);
    if (!differences.other.empty()) {
      history.notes.push_back(fmt::format("{}: not comparable: {}", name, differences.other));
      continue;
    }
    if (!differences.measuring.empty())
      history.notes.push_back(fmt::format("{}: compared, with {}", name, differences.measuring));
    kept.push_back(folder);
  }
  const bool probed = is_probed(kept);
  std::map<std::string, std::size_t> places;
  for (std::size_t folder = 0; folder < kept.size(); ++folder) {
    history.folders.push_back(kept[folder].name);
    history.versions.push_back(version_of(kept[folder]));
    for (const Record& record : kept[folder].records) {
      const auto [at, fresh] = places.try_emplace(cell_values(record, swept), history.cells.size());
      if (fresh) {
        const std::string name = cell_name(record, swept);
        history.cells.push_back({name.empty() ? record.id : name, std::vector<double>(kept.size(), kMissing),
                                 std::vector<double>(kept.size(), kMissing)});
      }
      HistoryCell& cell = history.cells[at->second];
      if (!record.measurement) continue;
      cell.peaks[folder] = static_cast<double>(record.measurement->memory.peak.value);
      history.disturbed += record.disturbed() ? 1 : 0;
      if (!record.disturbed())
        cell.steps[folder] = probed ? step_of_record(record) : record.measurement->time.step.value;
    }
  }
  std::vector<std::vector<double>> series;
  series.reserve(history.cells.size());
  for (const HistoryCell& cell : history.cells) series.push_back(cell.steps);
  for (const ChangePoint& point : change_points(series, rule)) history.changes.push_back({false, point});
  add_memory_changes(history.cells, rule.tolerance, history.changes);
  std::stable_sort(history.changes.begin(), history.changes.end(),
                   [](const HistoryChange& a, const HistoryChange& b) {
                     return std::pair(a.point.series, a.point.at) < std::pair(b.point.series, b.point.at);
                   });
  return history;
}

}  // namespace plumbline
