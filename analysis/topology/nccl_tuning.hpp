// Time of a collective as NCCL expects it, by its own tables, with bandwidths from the links.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/topology/collective_loads.hpp"
#include "core/base/units.hpp"

namespace plumbline {

enum class NcclProtocol { ll, ll128, simple };
inline constexpr int kNcclProtocols = 3;
/// "LL128".
std::string_view name_of(NcclProtocol protocol);

/// Figures of one algorithm, by protocol.
struct NcclAlgorithm {
  std::array<double, kNcclProtocols> base{};     // seconds
  std::array<double, kNcclProtocols> nvlink{};   // a step within a node
  std::array<double, kNcclProtocols> network{};  // a step between nodes
  std::array<double, kNcclProtocols> of_rate{};  // part of the links' rate; 0: not used
};

/// nccl_tuning.json, which names its source.
struct NcclTuning {
  std::string source;
  NcclAlgorithm ring, tree, nvls, nvls_tree, in_switch, pat;
  std::array<BytesPerSecond, 3> ll_most{};  // bus bandwidth of a node with LL, of 1, 2 and more nodes
  Seconds network_post;
  double posts_of_simple = 1;
  double plateau_factor = 1;    // of a ring's latency, from this many bytes on
  double plateau_bytes = 0;     // per rank
  double tree_from_bytes = 64;  // the first of the following; each is of twice the bytes
  std::array<std::vector<double>, kNcclProtocols> tree_part_by_size{};
};
/// The one that is part of the program. Throws InputError when the file is wrong.
NcclTuning nccl_tuning();

/// A group as its latencies see it.
struct GroupShape {
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
};

/// Time of a call with an algorithm and protocol, as in ncclTopoGetAlgoTime: latency + links ÷ part of the
/// rate. `links` is the time of the bytes on the links at their full rate. Nothing if NCCL has no such
/// algorithm, protocol or call. NCCL's bounds per channel are left out: channels are unknown here.
std::optional<Seconds> nccl_time(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm,
                                 NcclProtocol protocol, const GroupShape& shape, Bytes bytes, Seconds links);

}  // namespace plumbline
