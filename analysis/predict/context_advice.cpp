#include "analysis/predict/context_advice.hpp"

#include <fmt/format.h>

#include "analysis/predict/prediction_rows.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr CpCommType kContextWays[] = {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a,
                                       CpCommType::a2a_p2p};
constexpr std::int64_t kMostContextCells = 1024;

/// The given sizes of a2a+p2p, else those with as many ranks as possible in head exchange; none if none
/// exists.
HierarchicalContext sizes_of(const RunConfig& config) {
  RunConfig other = config;
  HierarchicalContext& sizes = other.parallel.cp.hierarchical;
  if (config.parallel.hierarchical()) return sizes;
  other.parallel.cp.comm_type = CpCommType::a2a_p2p;
  for (int ring = 2; 2 * ring <= config.parallel.context; ++ring) {
    sizes = {config.parallel.context / ring, ring};
    if (config.parallel.context % ring == 0 && !why_invalid(other)) return sizes;
  }
  return {};
}

}  // namespace

std::string context_report(const RunConfig& config, const RepeatedSchedule& step,
                           const Prediction& prediction, const HardwareProfile& hardware) {
  if (config.parallel.context == 1 || config.batch.packed.on() ||
      std::int64_t{step.once.ranks} * config.microbatches() > kMostContextCells)
    return "";
  std::string text = "cp_comm_type: step time s, exposed TP/CP/EP communication s, peak memory GiB\n";
  int predicted = 0;
  for (const CpCommType way : kContextWays) {
    RunConfig other = config;
    other.parallel.cp.comm_type = way;
    other.parallel.cp.hierarchical = {};
    std::string name(cp_comm_type_name(way));
    if (way == CpCommType::a2a_p2p) {
      const HierarchicalContext sizes = sizes_of(config);
      if (!sizes.given()) continue;  // why not stands by a2a, or there are too few ranks
      other.parallel.cp.hierarchical = sizes;
      name += fmt::format(" {},{}", sizes.heads, sizes.ring);
    }
    if (const auto reason = why_invalid(other)) {
      text += fmt::format("  {:<11} impossible: {}\n", name, *reason);
      continue;
    }
    if (why_unpredictable(other) || why_not_advised(config, other)) continue;
    const bool given = way == config.parallel.cp.comm_type;
    const Prediction predicted_way = given ? Prediction{} : predict(other, step, hardware);
    const Prediction& found = given ? prediction : predicted_way;
    text += fmt::format(
        "  {:<11} {:<10.4g}{:<10.4g}{:.4g}{}\n", name, found.time.step.value, found.time.exposed_tensor.value,
        static_cast<double>(found.memory.peak.value) / kBytesPerGiB, given ? " (this one)" : "");
    ++predicted;
  }
  return predicted > 1 ? text : "";
}

}  // namespace plumbline
