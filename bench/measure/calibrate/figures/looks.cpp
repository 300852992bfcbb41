#include "bench/measure/calibrate/figures/looks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::calibration {
namespace {

using List = std::vector<double> Looks::*;
constexpr List kLists[] = {&Looks::alone, &Looks::busy};
constexpr std::size_t kMostLooks = 10'000;

bool is_unsettled(const std::vector<double>& looks) {
  return !looks.empty() && (looks.size() < 2 || figure_of(looks).spread > kSettledSpread);
}

double ByClass::*class_of(const Cell& cell) {
  if (cell.working_set + 1 == kWorkingSets.size()) return &ByClass::bandwidth;
  const bool computes = cell.table == Table::gemm || cell.table == Table::attention;
  return computes ? &ByClass::compute : &ByClass::memory;
}

}  // namespace

LookFigure figure_of(const std::vector<double>& looks) {
  if (looks.empty()) throw Error("calibrate: a figure without a look");
  std::vector<double> sorted = looks;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t last = sorted.size() - 1;
  const double low = sorted[last / 4];
  // Two or three samples all count; of more, the slowest quarter may be disturbed.
  const double high = sorted[last - last / 4];
  return {low, high / low - 1};
}

bool is_unsettled(const Looks& looks) {
  return is_unsettled(looks.alone) || is_unsettled(looks.busy);
}

std::int64_t count_unsettled(const LooksOfCells& looks) {
  std::int64_t count = 0;
  for (const Looks& cell : looks) {
    for (const List list : kLists) {
      const std::vector<double>& seconds = cell.*list;
      count += !seconds.empty() && figure_of(seconds).spread > kSettledSpread ? 1 : 0;
    }
  }
  return count;
}

void append(LooksOfCells& looks, const LooksOfCells& more) {
  looks.resize(std::max(looks.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) {
    for (const List list : kLists) {
      (looks[i].*list).insert((looks[i].*list).end(), (more[i].*list).begin(), (more[i].*list).end());
    }
  }
}

ByClass movement_of(const std::vector<Cell>& cells, const LooksOfCells& looks) {
  ByClass movement;
  for (double ByClass::*const member : {&ByClass::compute, &ByClass::memory, &ByClass::bandwidth}) {
    for (const List list : kLists) {
      std::vector<double>
          rounds;  // by round, how much longer than its figure a look took, the median over cells
      for (std::size_t round = 0;; ++round) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < cells.size(); ++i) {
          const std::vector<double>& seconds = looks[i].*list;
          if (class_of(cells[i]) == member && round < seconds.size())
            ratios.push_back(seconds[round] / figure_of(seconds).seconds);
        }
        // Later samples are of unsettled cells, which do not represent the class.
        const std::size_t enough = cells.size() / 4;
        if (ratios.empty() || (round > 0 && ratios.size() < enough)) break;
        rounds.push_back(median(ratios));
      }
      if (rounds.empty()) continue;
      const auto [lowest, highest] = std::minmax_element(rounds.begin(), rounds.end());
      movement.*member = std::max(movement.*member, *highest / *lowest - 1);
    }
  }
  return movement;
}

std::string to_json(const LooksOfCells& looks) {
  Json list = Json::array();
  for (const Looks& cell : looks) list.push_back({{"alone", cell.alone}, {"busy", cell.busy}});
  return Json{{"looks", list}}.dump() + "\n";
}

LooksOfCells parse_looks(std::string_view text, const std::string& origin, std::size_t cells) {
  const Json json = parse_json_object(text, origin);
  const JsonKeys keys(json, origin);
  LooksOfCells looks;
  for (const JsonKeys& cell : keys.objects("looks", cells)) {
    looks.push_back(
        {cell.numbers("alone", 1e-12, 1e6, kMostLooks), cell.numbers("busy", 1e-12, 1e6, kMostLooks)});
  }
  if (looks.size() != cells) keys.refuse("looks", fmt::format("{} cells", cells));
  return looks;
}

}  // namespace plumbline::calibration
