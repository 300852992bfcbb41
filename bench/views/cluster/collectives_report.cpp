#include "bench/views/cluster/collectives_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/text/figures.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kSizeColumn = 20;  // "hierarchical ring", "in switch Simple"

/// "tree LL128"; nothing if NCCL has none.
std::string choice_text(const CollectiveTimes& times, std::size_t algorithm, std::size_t size) {
  if (algorithm >= times.algorithms.size()) return "-";
  const AlgorithmTimes& each = times.algorithms[algorithm];
  const auto protocol = each.times[size].protocol;
  return protocol ? fmt::format("{} {}", name_of(each.algorithm), name_of(*protocol))
                  : std::string(name_of(each.algorithm));
}

std::string axis_text(GroupCall call, const std::vector<Bytes>& sizes, const AxisCollective& axis) {
  const CollectiveTimes& times = axis.times;
  std::string text = fmt::format(
      "\n{} along {}: {} ranks in {} nodes, {} groups at once\n{:<18} {:<15} {:>8}", name_of(call), axis.axis,
      times.shape.ranks, times.shape.nodes, axis.groups, "algorithm", "busiest link", "GB/s");
  for (const Bytes size : sizes)
    text += fmt::format(" {:>{}}", readable_bytes(static_cast<double>(size.value)), kSizeColumn);
  text += "\n";
  for (const AlgorithmTimes& each : times.algorithms) {
    text += fmt::format("{:<18} {:<15} {:>8.1f}", name_of(each.algorithm), each.link, each.rate.value / 1e9);
    for (const AlgorithmTime& time : each.times) {
      const std::string by =
          time.protocol ? fmt::format(" {:<6}", name_of(*time.protocol)) : std::string(7, ' ');
      text += fmt::format(" {:>{}}", readable_time(time.time.value) + by, kSizeColumn);
    }
    text += "\n";
  }
  for (const bool nccl : {true, false}) {
    text += fmt::format("{:<43}", nccl ? "NCCL takes" : "best");
    for (std::size_t i = 0; i < sizes.size(); ++i)
      text += fmt::format(" {:>{}}", choice_text(times, (nccl ? times.nccl : times.best)[i], i), kSizeColumn);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string collectives_text(GroupCall call, const std::vector<Bytes>& sizes,
                             const std::vector<AxisCollective>& axes) {
  std::string text;
  for (const AxisCollective& axis : axes) text += axis_text(call, sizes, axis);
  return text;
}

std::string collectives_json(GroupCall call, const std::vector<Bytes>& sizes,
                             const std::vector<AxisCollective>& axes) {
  nlohmann::ordered_json json = {{"collective", name_of(call)},
                                 {"sizes_bytes", nlohmann::ordered_json::array()},
                                 {"source", nccl_tuning().source},
                                 {"axes", nlohmann::ordered_json::array()}};
  for (const Bytes size : sizes) json["sizes_bytes"].push_back(size.value);
  for (const AxisCollective& axis : axes) {
    nlohmann::ordered_json entry = {{"axis", axis.axis},
                                    {"ranks", axis.times.shape.ranks},
                                    {"nodes", axis.times.shape.nodes},
                                    {"groups", axis.groups},
                                    {"algorithms", nlohmann::ordered_json::array()},
                                    {"nccl", nlohmann::ordered_json::array()},
                                    {"best", nlohmann::ordered_json::array()}};
    for (const AlgorithmTimes& each : axis.times.algorithms) {
      nlohmann::ordered_json seconds = nlohmann::ordered_json::array();
      nlohmann::ordered_json protocols = nlohmann::ordered_json::array();
      for (const AlgorithmTime& time : each.times) {
        seconds.push_back(time.time.value);
        protocols.push_back(time.protocol ? nlohmann::ordered_json(name_of(*time.protocol)) : nullptr);
      }
      entry["algorithms"].push_back({{"algorithm", name_of(each.algorithm)},
                                     {"busiest_link", each.link},
                                     {"bytes_per_s", each.rate.value},
                                     {"seconds", seconds},
                                     {"protocols", protocols}});
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      entry["nccl"].push_back(choice_text(axis.times, axis.times.nccl[i], i));
      entry["best"].push_back(choice_text(axis.times, axis.times.best[i], i));
    }
    json["axes"].push_back(std::move(entry));
  }
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
