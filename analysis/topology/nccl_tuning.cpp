#include "analysis/topology/nccl_tuning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/hardware/embedded.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

constexpr const char* kTuningFile = "nccl_tuning.json";
constexpr double kMostMicroseconds = 1e6;
constexpr std::array<std::string_view, kNcclProtocols> kProtocolNames = {"LL", "LL128", "Simple"};
// Constants of NCCL's formulas.
constexpr double kPatStepPart = 1 / 3.5;  // of a step's latency, log2(nodes) times
constexpr double kPatPerRank = 2.8e-6;    // and this for every rank
constexpr double kInSwitchPerMember = 0.4e-6;

std::array<double, kNcclProtocols> by_protocol(const JsonKeys& keys, const std::string& key, double most,
                                               double scale) {
  const std::vector<double> values = keys.numbers(key, 0, most);
  if (values.size() != kNcclProtocols) keys.fail(key, "expected three numbers: LL, LL128, Simple");
  std::array<double, kNcclProtocols> result{};
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = scale * values[i];
  return result;
}

NcclAlgorithm algorithm_of(const JsonKeys& keys, const std::string& name) {
  const JsonKeys of = keys.object(name);
  return {by_protocol(of, "base_us", kMostMicroseconds, 1e-6),
          by_protocol(of, "nvlink_us", kMostMicroseconds, 1e-6),
          by_protocol(of, "network_us", kMostMicroseconds, 1e-6), by_protocol(of, "part_of_rate", 1, 1)};
}

const NcclAlgorithm* table_of(const NcclTuning& tuning, CallAlgorithm algorithm) {
  switch (algorithm) {
    case CallAlgorithm::ring:
      return &tuning.ring;
    case CallAlgorithm::tree:
      return &tuning.tree;
    case CallAlgorithm::nvls:
      return &tuning.nvls;
    case CallAlgorithm::nvls_tree:
      return &tuning.nvls_tree;
    case CallAlgorithm::in_switch:
      return &tuning.in_switch;
    case CallAlgorithm::pat:
      return &tuning.pat;
    case CallAlgorithm::hierarchical_ring:
    case CallAlgorithm::hierarchical_tree:
    case CallAlgorithm::direct:
    case CallAlgorithm::forwarded:
      return nullptr;
  }
  return nullptr;
}

/// As NCCL's log2i.
double whole_log2(std::int64_t value) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(value)) - 1);
}

/// Latency of a ring: steps within nodes and between them, and the network processor's time for each.
double ring_latency(const NcclTuning& tuning, const NcclAlgorithm& of, GroupCall call, NcclProtocol protocol,
                    const GroupShape& shape, double network) {
  const double rounds = call == GroupCall::all_reduce ? 2 : 1;
  const double between = rounds * static_cast<double>(shape.nodes - 1);
  const double within = rounds * static_cast<double>(shape.ranks - 1) - between;
  const double posts = protocol == NcclProtocol::simple ? tuning.posts_of_simple : 1;
  const double post = shape.nodes > 1 ? posts * tuning.network_post.value : 0;
  return within * std::max(of.nvlink[static_cast<std::size_t>(protocol)], post) + between * network;
}

double latency_of(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm, NcclProtocol protocol,
                  const GroupShape& shape) {
  const NcclAlgorithm& of = *table_of(tuning, algorithm);
  const auto p = static_cast<std::size_t>(protocol);
  const std::int64_t members = shape.ranks / shape.nodes;
  // With one member a node, steps between nodes are not hidden behind those within.
  const double network = members == 1 ? tuning.tree.network[p] : of.network[p];
  const double steps = whole_log2(shape.nodes);
  const double others = static_cast<double>(members - 1);
  switch (algorithm) {
    case CallAlgorithm::ring:
      return of.base[p] + ring_latency(tuning, of, call, protocol, shape, network);
    case CallAlgorithm::tree:
      return of.base[p] + 2 * (others * of.nvlink[p] + steps * network);
    case CallAlgorithm::nvls:
      return of.nvlink[p];
    case CallAlgorithm::nvls_tree:
      return of.base[p] + of.nvlink[p] + 2 * steps * network;
    case CallAlgorithm::in_switch:
      return of.base[p] + 2 * (std::min(1.0, others) * of.nvlink[p] + others * kInSwitchPerMember) + network;
    case CallAlgorithm::pat:
      return of.base[p] + steps * network * kPatStepPart + static_cast<double>(shape.ranks) * kPatPerRank;
    case CallAlgorithm::hierarchical_ring:
    case CallAlgorithm::hierarchical_tree:
    case CallAlgorithm::direct:
    case CallAlgorithm::forwarded:
      break;
  }
  return 0;
}

/// Bytes over time as a node's bus bandwidth: the traffic of all its members together.
double ll_bound(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm, const GroupShape& shape) {
  const std::size_t nodes = shape.nodes > 2 ? 2 : static_cast<std::size_t>(shape.nodes - 1);
  const double rounds = call == GroupCall::all_reduce ? 2 : 1;
  const double ranks = static_cast<double>(shape.ranks);
  const double to_bytes = algorithm == CallAlgorithm::ring ? ranks / (rounds * (ranks - 1)) : 0.5;
  return tuning.ll_most[nodes].value * to_bytes;
}

}  // namespace

std::string_view name_of(NcclProtocol protocol) {
  return kProtocolNames[static_cast<std::size_t>(protocol)];
}

NcclTuning nccl_tuning() {
  const Json file = parse_json_object<Json>(embedded_text(analysis_files(), kTuningFile), kTuningFile);
  const JsonKeys keys(file, kTuningFile);
  NcclTuning tuning;
  tuning.source = keys.string("source");
  tuning.ring = algorithm_of(keys, "ring");
  tuning.tree = algorithm_of(keys, "tree");
  tuning.nvls = algorithm_of(keys, "nvls");
  tuning.nvls_tree = algorithm_of(keys, "nvls_tree");
  tuning.in_switch = algorithm_of(keys, "in_switch");
  tuning.pat = algorithm_of(keys, "pat");
  const JsonKeys most = keys.object("ll_most_gb_per_s");
  tuning.ll_most = {{{1e9 * most.number("one_node", 0.1, 1e5)},
                     {1e9 * most.number("two_nodes", 0.1, 1e5)},
                     {1e9 * most.number("more_nodes", 0.1, 1e5)}}};
  tuning.network_post = {1e-6 * keys.number("network_post_us", 0, kMostMicroseconds)};
  tuning.posts_of_simple = keys.number("network_posts_of_simple", 0, 100);
  const JsonKeys plateau = keys.object("ring_plateau");
  tuning.plateau_factor = plateau.number("latency_factor", 1, 100);
  tuning.plateau_bytes =
      plateau.number("bytes_per_channel_and_rank", 0, 1e9) * plateau.number("channels", 1, 1024);
  const JsonKeys sizes = keys.object("tree_part_by_size");
  tuning.tree_from_bytes = sizes.number("from_bytes", 1, 1e6);
  for (std::size_t p = 0; p < kProtocolNames.size(); ++p)
    tuning.tree_part_by_size[p] = sizes.numbers(std::string(kProtocolNames[p]), 0.01, 1, 64);
  return tuning;
}

std::optional<Seconds> nccl_time(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm,
                                 NcclProtocol protocol, const GroupShape& shape, Bytes bytes, Seconds links) {
  const NcclAlgorithm* of = table_of(tuning, algorithm);
  const auto p = static_cast<std::size_t>(protocol);
  if (of == nullptr || call == GroupCall::all_to_all || of->of_rate[p] <= 0) return std::nullopt;
  const auto size = static_cast<double>(bytes.value);
  double rate = of->of_rate[p] * size / links.value;
  if (protocol == NcclProtocol::ll) rate = std::min(rate, ll_bound(tuning, call, algorithm, shape));
  double latency = latency_of(tuning, call, algorithm, protocol, shape);
  if (algorithm == CallAlgorithm::tree) {
    const std::vector<double>& parts = tuning.tree_part_by_size[p];
    const double doublings = std::floor(std::log2(size / tuning.tree_from_bytes));
    if (doublings >= 0 && doublings < static_cast<double>(parts.size()))
      rate *= parts[static_cast<std::size_t>(doublings)];
  }
  const bool plateau = algorithm == CallAlgorithm::ring && protocol == NcclProtocol::simple &&
                       shape.nodes > 1 && call == GroupCall::all_reduce &&
                       size / static_cast<double>(shape.ranks) >= tuning.plateau_bytes;
  if (plateau) latency *= tuning.plateau_factor;
  return Seconds{latency + size / rate};
}

}  // namespace plumbline
