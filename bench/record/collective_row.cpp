#include "bench/record/collective_row.hpp"

#include <algorithm>
#include <array>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

constexpr double kRowMicro = 1e6;
constexpr std::int64_t kMostRowBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostRowRanks = 1 << 24;
constexpr double kMostRowMicroseconds = 1e15;

//                                                                   reduces root   apart  same   pairs
constexpr std::array<BenchedKind, 9> kBenchedKinds = {{
    {BenchedCall::all_reduce, "all-reduce", "AllReduce", true, false, true, true, false},
    {BenchedCall::all_gather, "all-gather", "AllGather", false, false, true, true, false},
    {BenchedCall::reduce_scatter, "reduce-scatter", "ReduceScatter", true, false, true, false, false},
    {BenchedCall::all_to_all, "all-to-all", "AlltoAll", false, false, true, false, false},
    {BenchedCall::all_to_all_uneven, "all-to-all-uneven", "AlltoAllv", false, false, true, false, false},
    {BenchedCall::broadcast, "broadcast", "Broadcast", false, true, false, true, false},
    {BenchedCall::send_receive, "send-receive", "SendRecv", false, false, true, false, true},
    {BenchedCall::latency, "latency", "Latency", false, false, true, false, true},
    {BenchedCall::bandwidth, "bandwidth", "Bandwidth", false, false, true, false, true},
}};

}  // namespace

std::span<const BenchedKind> benched_kinds() {
  return kBenchedKinds;
}

const BenchedKind& kind_of(BenchedCall call) {
  return kBenchedKinds[static_cast<std::size_t>(call)];
}

nlohmann::ordered_json to_json(const CollectiveRow& row) {
  const BenchedKind& kind = kind_of(row.call);
  nlohmann::ordered_json json = {{"name", kind.name},
                                 {"nodes", row.nodes},
                                 {"ranks", row.ranks},
                                 {"ranksPerNode", row.ranks_per_node},
                                 {"gpusPerRank", 1},
                                 {"size", row.size},
                                 {"type", row.type},
                                 {"redop", kind.reduces ? "sum" : "none"},
                                 {"inPlace", row.in_place ? 1 : 0},
                                 {"time", row.seconds * kRowMicro},
                                 {"algBw", row.algorithm_gb()},
                                 {"busBw", row.bus_gb()},
                                 {"wrong", row.wrong},
                                 {"count", row.count},
                                 {"root", row.root},
                                 {"group", row.group},
                                 {"groups", row.groups},
                                 {"calls", row.calls},
                                 {"timeLow", row.low_s * kRowMicro},
                                 {"timeHigh", row.high_s * kRowMicro},
                                 {"busFactor", row.bus_factor}};
  if (row.predicted_s) {
    json["predicted"] = *row.predicted_s * kRowMicro;
    json["difference"] = row.difference();
    if (row.predicted_drift) {
      json["predictedLow"] = row.predicted_low_s() * kRowMicro;
      json["predictedHigh"] = row.predicted_high_s() * kRowMicro;
    }
  }
  return json;
}

CollectiveRow parse_collective_row(std::string_view text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const JsonKeys keys(root, origin);
  CollectiveRow row;
  const std::string name = keys.string("name");
  const auto* const kind = std::find_if(kBenchedKinds.begin(), kBenchedKinds.end(),
                                        [&](const BenchedKind& each) { return each.name == name; });
  if (kind == kBenchedKinds.end()) keys.refuse("name", "a benchmark such as AllReduce");
  const auto number = [&](const char* key, std::int64_t most) {
    return static_cast<int>(keys.integer(key, 0, most));
  };
  row.call = kind->call;
  row.nodes = number("nodes", kMostRowRanks);
  row.ranks = number("ranks", kMostRowRanks);
  row.ranks_per_node = number("ranksPerNode", kMostRowRanks);
  row.size = keys.integer("size", 0, kMostRowBytes);
  row.type = keys.string("type");
  row.in_place = number("inPlace", 1) == 1;
  row.seconds = keys.number("time", 0, kMostRowMicroseconds) / kRowMicro;
  row.wrong = keys.integer("wrong", 0, kMostRowBytes);
  row.count = keys.integer("count", 0, kMostRowBytes);
  row.root = static_cast<int>(keys.integer("root", -1, kMostRowRanks));
  row.group = keys.string("group");
  row.groups = number("groups", kMostRowRanks);
  row.calls = keys.integer("calls", 0, kMostRowBytes);
  row.low_s = keys.number("timeLow", 0, kMostRowMicroseconds) / kRowMicro;
  row.high_s = keys.number("timeHigh", 0, kMostRowMicroseconds) / kRowMicro;
  row.bus_factor = keys.number("busFactor", 0, 100);
  return row;
}

}  // namespace plumbline
