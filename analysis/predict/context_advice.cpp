#include "analysis/predict/context_advice.hpp"

#include <fmt/format.h>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr CpCommType kContextWays[] = {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a};
constexpr std::int64_t kMostContextCells = 1024;

}  // namespace

std::string context_report(const RunConfig& config, const RepeatedSchedule& step,
                           const Prediction& prediction, const HardwareProfile& hardware) {
  if (config.parallel.context == 1 ||
      std::int64_t{step.once.ranks} * config.microbatches() > kMostContextCells)
    return "";
  std::string text =
      "cp_comm_type: seconds per step, of which waiting for tensor and context ranks, GiB of the fullest "
      "rank\n";
  int predicted = 0;
  for (const CpCommType way : kContextWays) {
    RunConfig other = config;
    other.parallel.cp_comm_type = way;
    if (const auto reason = why_invalid(other)) {
      text += fmt::format("  {:<12}cannot be: {}\n", cp_comm_type_name(way), *reason);
      continue;
    }
    if (why_unpredictable(other)) continue;
    const bool given = way == config.parallel.cp_comm_type;
    const Prediction predicted_way = given ? Prediction{} : predict(other, step, hardware);
    const Prediction& found = given ? prediction : predicted_way;
    text +=
        fmt::format("  {:<12}{:<10.4g}{:<10.4g}{:.4g}{}\n", cp_comm_type_name(way), found.time.step.value,
                    found.time.exposed_tensor.value,
                    static_cast<double>(found.memory.peak.value) / kBytesPerGiB, given ? " (this one)" : "");
    ++predicted;
  }
  return predicted > 1 ? text : "";
}

}  // namespace plumbline
