#include "bench/measure/calibrate/probe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/host_time.hpp"
#include "bench/measure/calibrate/messages.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/statistics.hpp"
#include "core/run/machine_load.hpp"
#include "core/run/processors.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

/// Cell of a probe: the beginning of its key, sizes, and working set. Cells `from_memory` mostly wait for
/// memory.
struct ProbeCell {
  std::string_view key;
  std::array<double, 3> at;
  std::size_t working_set;
  bool from_memory = false;
};
constexpr ProbeCell kProbeCells[] = {
    {"forward", {256, 1024, 1024}, 1},
    {"forward", {64, 64, 256}, 0},
    {"input_gradient", {256, 256, 1024}, 1},
    {"weight_gradient", {256, 1024, 256}, 1},
    {"weight_gradient", {16, 64, 64}, 0},
    {"forward", {256, 64, 1}, 1},
    {"backward", {256, 64, 1}, 1},
    {"rmsnorm_forward", {1 << 18, 512, 1}, 1},
    {"swiglu_backward", {1 << 18, 1, 1}, 1},
    {"add", {1 << 12, 1, 1}, 0},
    {"cross_entropy_sums", {1 << 18, 1, 1}, 1},
    {"forward", {16, 1024, 1024}, 2, true},
    {"weight_gradient", {16, 1024, 256}, 2, true},
    {"adam", {1 << 21, 1, 1}, 1, true},
};
/// Cells that wait less for memory do not show its speed.
constexpr double kLeastWait = 1.25;                           // times as long as with operands in caches
constexpr std::int64_t kMessageSizes[] = {1 << 12, 1 << 18};  // bytes, sizes of calibration

bool is_of(const ProbeCell& probe, const Cell& cell) {
  const std::string_view key = cell.key;
  return probe.key == key.substr(0, key.find('.')) && probe.at == cell.at &&
         probe.working_set == cell.working_set && cell.table != Table::level;
}

bool is_from_memory(const Cell& cell) {
  return std::any_of(std::begin(kProbeCells), std::end(kProbeCells),
                     [&](const ProbeCell& probe) { return probe.from_memory && is_of(probe, cell); });
}

double ByClass::*class_of_probe(const Cell& cell) {
  const bool computes = cell.table == Table::gemm || cell.table == Table::attention;
  return computes ? &ByClass::compute : &ByClass::memory;
}

double read(const std::map<std::string, Grid>& grids, const Cell& cell) {
  const auto found = grids.find(cell.key);
  return found == grids.end() ? -1 : found->second.at(cell.at[0], cell.at[1], cell.at[2]).value;
}

double read(const std::vector<OperatorTimes>& list, const Cell& cell, std::size_t working_set) {
  for (const OperatorTimes& times : list) {
    if (times.working_set != kWorkingSets[working_set]) continue;
    if (cell.table == Table::gemm) return read(times.gemm, cell);
    if (cell.table == Table::attention) return read(times.attention, cell);
    if (cell.table == Table::by_row && times.by_row.count(cell.key) > 0) return read(times.by_row, cell);
    const auto found = times.memory_bound.find(cell.key);
    return found == times.memory_bound.end() ? -1 : found->second.at(cell.at[0]).value;
  }
  return -1;
}

/// Spread of calibration's samples at a size; 0 where unknown.
double spread_at(const Curve& curve, std::int64_t bytes) {
  const auto size = std::find(curve.sizes.begin(), curve.sizes.end(), static_cast<double>(bytes));
  const auto at = static_cast<std::size_t>(size - curve.sizes.begin());
  return at < curve.spread.size() ? curve.spread[at] : 0;
}

/// Slowdown factors of messages and collectives relative to the calibration.
std::vector<double> message_ratios(const HardwareProfile& profile, int world) {
  std::vector<double> ratios;
  if (world < 2 || world % 2 != 0) return ratios;
  MpiCommunicator communicator({world, 1, 1});
  std::vector<std::byte> buffer(2 * static_cast<std::size_t>(kMessageSizes[1]));
  const auto add = [&](const Curve& calibrated, std::int64_t bytes, const auto& look) {
    const std::array<double, 2> looks = {look(), look()};
    ratios.push_back(
        message_ratio(looks, calibrated.at(static_cast<double>(bytes)).value, spread_at(calibrated, bytes)));
  };
  for (const std::int64_t bytes : kMessageSizes) {
    for (const MessageTime& time : profile.messages) {
      if (time.world != world) continue;
      add(time.seconds, bytes, [&] { return message_seconds(communicator, bytes, buffer.data()); });
    }
    for (const CollectiveTime& time : profile.collectives) {
      if (time.world != world || time.ranks != world || time.dtype != DType::fp32 || time.started ||
          time.kind != CollectiveKind::all_reduce) {
        continue;
      }
      add(time.seconds, bytes, [&] {
        return collective_seconds(communicator, time.kind, DType::fp32, false, bytes, buffer.data());
      });
    }
  }
  return ratios;
}

}  // namespace

double message_ratio(const std::array<double, 2>& looks, double calibrated, double spread) {
  const double ratio = std::min(looks[0], looks[1]) / calibrated;
  return ratio > 1 ? std::max(1.0, ratio / (1 + spread)) : std::min(1.0, ratio * (1 + spread));
}

std::vector<Cell> probe_cells(DType storage) {
  std::vector<Cell> chosen;
  for (Cell& cell : all_cells()) {
    const std::string_view key = cell.key;
    const bool of_type = cell.storage == storage && key.substr(key.find('.') + 1) == name_of(storage);
    const bool wanted = of_type && std::any_of(std::begin(kProbeCells), std::end(kProbeCells),
                                               [&](const ProbeCell& probe) { return is_of(probe, cell); });
    if (wanted) chosen.push_back(std::move(cell));
  }
  return chosen;
}

namespace {

/// Standard error of a robust mean: half of the distance between quartiles is two thirds of a standard
/// deviation. A single value gives no error; it is as uncertain as its distance from 1.
double error_of_mean(const std::vector<double>& values) {
  const std::size_t last = values.size() - 1;
  if (last == 0) return std::abs(values.front() - 1);
  const double quartiles = value_at(values, last - last / 4) - value_at(values, last / 4);
  return 0.75 * quartiles / std::sqrt(static_cast<double>(values.size()));
}

double calibrated_seconds(const HardwareProfile& profile, const Cell& cell, std::size_t working_set,
                          double busy) {
  const double quiet = read(profile.alone, cell, working_set);
  const double crowded = read(profile.busy, cell, working_set);
  if (quiet < 0 || crowded < 0) return std::max(quiet, crowded);
  return (1 - busy) * quiet + busy * crowded;
}

}  // namespace

double calibrated_seconds(const HardwareProfile& profile, const Cell& cell, double busy) {
  return calibrated_seconds(profile, cell, cell.working_set, busy);
}

double calibrated_in_caches(const HardwareProfile& profile, const Cell& cell, double busy) {
  return calibrated_seconds(profile, cell, 0, busy);
}

OperatorRatios operator_ratios(const HardwareProfile& profile, const std::vector<Cell>& cells,
                               const std::vector<double>& seconds, double busy) {
  OperatorRatios found;
  for (double ByClass::*const member : {&ByClass::compute, &ByClass::memory}) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const double calibrated = calibrated_seconds(profile, cells[i], busy);
      if (class_of_probe(cells[i]) == member && !is_from_memory(cells[i]) && calibrated > 0)
        ratios.push_back(seconds[i] / calibrated);
    }
    if (ratios.empty()) continue;
    found.longer.*member = interquartile_mean(ratios);
    found.error.*member = error_of_mean(ratios);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!is_from_memory(cells[i])) continue;
    const double calibrated = calibrated_seconds(profile, cells[i], busy);
    const double cached = calibrated_in_caches(profile, cells[i], busy);
    if (cached <= 0 || calibrated < kLeastWait * cached) continue;
    const double waited = seconds[i] - cached * found.longer.*class_of_probe(cells[i]);
    ratios.push_back(std::max(0.0, waited) / (calibrated - cached));
  }
  if (ratios.empty()) return found;
  found.longer.bandwidth = median(ratios);
  found.error.bandwidth = error_of_mean(ratios);
  return found;
}

Probe::Probe(const HardwareProfile& profile, DType storage, Communicator& control)
    : profile_(profile), storage_(storage), control_(control) {}

bool Probe::possible(const HardwareProfile& profile, DType storage) {
  if (storage != DType::fp32 && storage != DType::bf16) return false;
  const std::vector<Cell> cells = probe_cells(storage);
  return profile.processors() > 0 && std::any_of(cells.begin(), cells.end(), [&](const Cell& cell) {
           return calibrated_seconds(profile, cell, 0) > 0;
         });
}

ProbeLook Probe::look(double seconds) const {
  const int world = control_.layout().world();
  const double busy =
      profile_.processors() > 1 ? std::min(1.0, (world - 1.0) / (profile_.processors() - 1.0)) : 0;
  const std::vector<Cell> cells = probe_cells(storage_);
  std::vector<std::vector<double>> looks(cells.size());
  std::vector<bool> by_processor(cells.size());
  RankLoad load;
  {
    const std::unique_ptr<Operators> operators = make_cpu_operators();
    Pools pools(kProbePools);
    CellTimer timer(*operators, pools);
    control_.barrier(Group::world);
    const LoadReading start = read_load();
    // Every cell is looked at, and then as often as there is time.
    for (std::int64_t round = 0; round == 0 || (monotonic_now() - start.at).value < seconds; ++round) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        timer.begin(cells[i], round * 31);
        looks[i].push_back(timer.usual());
        by_processor[i] = timer.on_processor_clock();
      }
    }
    load = difference(read_load(), start);
  }
  std::vector<double> figures;
  figures.reserve(looks.size());
  for (std::size_t i = 0; i < looks.size(); ++i)
    figures.push_back(by_processor[i] ? mean(looks[i]) : median(looks[i]));
  const OperatorRatios operators = operator_ratios(profile_, cells, figures, busy);
  ByClass mine = operators.longer;
  control_.barrier(Group::world);
  if (profile_.allocation.value > 0) mine.host = measure_allocation() / profile_.allocation;
  const std::vector<double> messages = message_ratios(profile_, world);
  if (!messages.empty()) mine.messages = median(messages);

  ProbeLook look;
  look.load = step_load_of(training::from_every_rank(control_, load), machine_processors());
  for (const ByClass& rank : training::from_every_rank(control_, mine)) {
    for (const SpeedClass& each : kSpeedClasses) look.longer.*each.member += rank.*each.member / world;
  }
  // Ranks sample the same cells at the same time: their errors are common.
  for (const ByClass& rank : training::from_every_rank(control_, operators.error)) {
    for (const SpeedClass& each : kSpeedClasses) look.error.*each.member += rank.*each.member / world;
  }
  return look;
}

}  // namespace plumbline::calibration
