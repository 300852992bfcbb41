#include "bench/show/views/cluster/collectives_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/show/text/figures.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

std::string axis_text(GroupCall call, const std::vector<Bytes>& sizes, const AxisCollective& axis) {
  const CollectiveTimes& times = axis.times;
  std::string text = fmt::format(
      "\n{} along {}: {} ranks in {} nodes, {} concurrent groups\n{:<18} {:<15} {:>8}\n", name_of(call),
      axis.axis, times.ranks, times.nodes, axis.groups, "algorithm", "bottleneck link", "GB/s");
  for (const AlgorithmRate& each : times.algorithms)
    text +=
        fmt::format("{:<18} {:<15} {:>8.1f}\n", name_of(each.algorithm), each.link, each.rate.value / 1e9);
  text += fmt::format("{:<34} {:>8}\n", "bytes", "time");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    text += fmt::format("{:<34} {:>8}\n", readable_bytes(static_cast<double>(sizes[i].value)),
                        readable_time(times.seconds[i].value));
  }
  return text + fmt::format("network of {}; {}: {:.3g} x the time without link sharing\n", axis.hardware,
                            name_of(times.taken), times.sharing);
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
                                 {"axes", nlohmann::ordered_json::array()}};
  for (const Bytes size : sizes) json["sizes_bytes"].push_back(size.value);
  for (const AxisCollective& axis : axes) {
    nlohmann::ordered_json entry = {{"axis", axis.axis},
                                    {"ranks", axis.times.ranks},
                                    {"nodes", axis.times.nodes},
                                    {"groups", axis.groups},
                                    {"hardware", axis.hardware},
                                    {"source", "constants of its network, analysis/hardware"},
                                    {"algorithms", nlohmann::ordered_json::array()},
                                    {"taken", name_of(axis.times.taken)},
                                    {"sharing", axis.times.sharing},
                                    {"seconds", nlohmann::ordered_json::array()}};
    for (const AlgorithmRate& each : axis.times.algorithms) {
      entry["algorithms"].push_back({{"algorithm", name_of(each.algorithm)},
                                     {"busiest_link", each.link},
                                     {"bytes_per_s", each.rate.value}});
    }
    for (const Seconds time : axis.times.seconds) entry["seconds"].push_back(time.value);
    json["axes"].push_back(std::move(entry));
  }
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
