// Measured collectives and messages as rows: the names of nccl-tests and rccl-tests, and their JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plumbline {

/// Benchmarks of `plumbline bench collective`.
enum class BenchedCall {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_to_all_uneven,
  broadcast,
  send_receive,
  latency,
  bandwidth
};

/// Messages of one direction that `bandwidth` starts before it waits, as osu_bw does.
inline constexpr int kMessageWindow = 64;

/// Names and shape of one of them.
struct BenchedKind {
  BenchedCall call;
  std::string_view option;  // on the command line: "all-reduce"
  std::string_view name;    // rccl-tests': "AllReduce"
  bool reduces;
  bool rooted;
  bool out_of_place;
  bool in_place;
  bool between_pairs;  // messages, not a collective

  /// True for a benchmark in the form of OSU's: pairs of ranks.
  bool is_osu() const { return call == BenchedCall::latency || call == BenchedCall::bandwidth; }
};
std::span<const BenchedKind> benched_kinds();
const BenchedKind& kind_of(BenchedCall call);

/// One size of one benchmark: its time is the median of blocks of calls, mean over ranks.
struct CollectiveRow {
  BenchedCall call = BenchedCall::all_reduce;
  bool in_place = false;
  std::string group = "world";
  int ranks = 1;   // of a group
  int groups = 1;  // that ran at once
  int ranks_per_node = 1;
  int nodes = 1;
  std::int64_t size = 0;   // bytes, as nccl-tests count them
  std::int64_t count = 0;  // elements of a rank's share
  std::string type = "float";
  int root = -1;
  double seconds = 0;
  double low_s = 0;  // 95 % interval of the median
  double high_s = 0;
  std::int64_t calls = 0;
  double bus_factor = 1;  // bus bandwidth ÷ algorithm bandwidth
  std::int64_t wrong = 0;
  std::optional<double> predicted_s{};
  /// Drift of this machine's messages between the rounds of its calibration, as a share: the predicted time's
  /// interval is from predicted_s / (1 + share) to predicted_s · (1 + share). Nothing for other profiles.
  std::optional<double> predicted_drift{};
  double limit_s = 0;  // predicted without latency, for the plot; 0: unknown

  /// 10^9 bytes per second.
  double algorithm_gb() const { return seconds > 0 ? static_cast<double>(size) / seconds * 1e-9 : 0; }
  double bus_gb() const { return algorithm_gb() * bus_factor; }
  /// Measured against predicted time: 0.1 is ten per cent longer. Needs a prediction.
  double difference() const { return seconds / predicted_s.value() - 1; }
  double predicted_low_s() const { return predicted_s.value() / (1 + predicted_drift.value()); }
  double predicted_high_s() const { return predicted_s.value() * (1 + predicted_drift.value()); }
};

/// rccl-tests' keys (name, nodes, ranks, ranksPerNode, gpusPerRank, size, type, redop, inPlace, time in µs,
/// algBw, busBw, wrong), then our own.
nlohmann::ordered_json to_json(const CollectiveRow& row);
/// Reads what to_json() wrote. Throws InputError; `origin` names the source.
CollectiveRow parse_collective_row(std::string_view json, const std::string& origin);

}  // namespace plumbline
