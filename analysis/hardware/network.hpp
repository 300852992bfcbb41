// Links between accelerators, and times of collectives and messages on them.
#pragma once

#include <algorithm>
#include <cmath>

namespace plumbline {

/// Nodes of `gpus_per_node`, a fast link within a node and NICs between nodes. A node is the reach of the
/// fast link: the 8 GPUs of a host, or the 72 of a rack of 18 hosts. Every GPU has a rail of its own, the
/// share `nic_bandwidth` of the NICs.
struct Network {
  int gpus_per_node = 8;
  int gpus_per_host = 0;      // as launch files count nodes; 0: gpus_per_node
  double node_bandwidth = 0;  // bus bandwidth (nccl-tests) of one GPU within a node, large messages, bytes/s
  double exchange_bandwidth = 0;  // the same for an all-to-all; 0: as node_bandwidth
  double message_bandwidth = 0;   // of one point-to-point message within a node, bytes/s
  double node_base_s = 0;         // of any collective or message within a node: launch and protocol
  double node_step_s = 0;         // per ring step within a node
  double nic_bandwidth = 0;       // of one GPU's share of the network cards, one direction, achieved, bytes/s
  double nic_base_s = 0;
  double nic_step_s = 0;        // per ring step between nodes
  bool of_user = false;         // from a user's file: tables of the machine's collectives are of another
  double switch_reduction = 1;  // all-reduce bus bandwidth with in-switch reduction ÷ ring, within a node
};

/// Ranks of a collective: `size` of them, neighbours `stride` world ranks apart.
struct Span {
  int size = 1;
  int stride = 1;
};

/// Number of a group's ranks on one node, in Megatron's rank order (tensor, then data, then pipeline).
inline int ranks_per_node(const Network& net, Span group) {
  return std::clamp(net.gpus_per_node / std::max(group.stride, 1), 1, group.size);
}

struct RingRate {
  double base, step, bandwidth, steps;
};

/// A ring through all ranks. Within the node it uses the fast link. Between nodes every group has the NICs of
/// its own GPUs; all groups of the same kind run at once. A ring takes a step per rank, of which one per node
/// crosses the network. `trees`: NCCL may take trees for small messages between nodes, whose latency grows
/// with the logarithm of the nodes; only all-reduces have them (nccl, src/graph/tuning.cc).
inline RingRate ring(const Network& net, Span group, bool trees) {
  const int local = ranks_per_node(net, group);
  if (local >= group.size) return {net.node_base_s, net.node_step_s, net.node_bandwidth, group.size - 1.0};
  const double nodes = std::ceil(static_cast<double>(group.size) / local);
  const double card = std::min(net.node_bandwidth, net.nic_bandwidth * local);
  const double inside = net.node_step_s / net.nic_step_s;  // a step within a node, over one between nodes
  const double along = (group.size - nodes) * inside + nodes - 1;
  const double climbing = (local - 1) * inside + 2 * std::log2(nodes) + 1;
  return {net.nic_base_s, net.nic_step_s, card, trees ? std::min(along, climbing) : along};
}

/// bytes: the whole reduced buffer. Ring: 2(n-1)/n · bytes over the bus bandwidth (nccl-tests,
/// PERFORMANCE.md).
inline double all_reduce_seconds(const Network& net, Span group, double bytes) {
  if (group.size < 2) return 0;
  const RingRate r = ring(net, group, true);
  const bool local = ranks_per_node(net, group) >= group.size;
  const double gain = local && group.size > 2 ? net.switch_reduction : 1.0;
  const double n = group.size;
  return r.base + 2 * r.steps * r.step + 2 * (n - 1) / n * bytes / (r.bandwidth * gain);
}

/// Reduce-scatter or all-gather; bytes: the whole (gathered) buffer.
inline double scatter_seconds(const Network& net, Span group, double bytes) {
  if (group.size < 2) return 0;
  const RingRate r = ring(net, group, false);
  const double n = group.size;
  return r.base + r.steps * r.step + (n - 1) / n * bytes / r.bandwidth;
}

/// All-to-all: every rank sends one n-th of `bytes` to each rank. Messages within the node use the fast link,
/// alongside those to other nodes over the rank's own NIC. Direct sends cannot use other ranks' NICs
/// (nccl-tests issues 130 and 267).
inline double all_to_all_seconds(const Network& net, Span group, double bytes) {
  if (group.size < 2) return 0;
  const int local = ranks_per_node(net, group);
  const double each = bytes / group.size;
  const double fast = net.exchange_bandwidth > 0 ? net.exchange_bandwidth : net.node_bandwidth;
  const double inside = (local - 1) * (each / fast + net.node_step_s);
  const double outside = (group.size - local) * (each / net.nic_bandwidth + net.nic_step_s);
  return (local < group.size ? net.nic_base_s : net.node_base_s) + std::max(inside, outside);
}

/// Expected number of distinct places, out of `places`, that a token's equally likely `choices` fall on.
inline double places_chosen(double places, double choices) {
  return places * (1 - std::pow(1 - 1 / places, choices));
}

/// Tokens of a rank on their way to the ranks of their experts, or their results on the way back.
struct Dispatched {
  double bytes = 0;       // of the tokens
  double choices = 0;     // experts of a token
  double most_nodes = 0;  // that these are on; 0: any number
  double weights = 0;     // bytes of the tokens' weights for all experts; 0: they stay
  bool combines = false;  // results, which the receiver adds up
};

/// Rate of HybridEP's kernel that combines over that of the one which dispatches, within a fast link: 0.87 to
/// 0.97 on 8 to 36 GB200, 0.92 on 8 B200; between nodes 0.88 to 1.03 (deepseek-ai/DeepEP@94a9f8f6
/// docs/README_Hybrid-EP.md).
constexpr double kCombining = 0.92;

/// As in DeepEP and HybridEP: one copy of a token goes over the network to every node with a chosen expert,
/// from there one over the fast link to every rank (DeepSeek-AI 2024, arXiv:2412.19437 §3.2.2). In HybridEP
/// a copy has the token's weights, in fp32, for all experts of the node that it goes to (same commit,
/// csrc/hybrid_ep/backend/hybrid_ep_backend.cuh, intra_node_prob_buffer).
inline double dispatch_seconds(const Network& net, Span group, const Dispatched& sent) {
  if (group.size < 2) return 0;
  const int local = ranks_per_node(net, group);
  const double nodes = static_cast<double>(group.size) / local;
  const double bytes = sent.bytes + sent.weights / nodes;
  const double rate = net.node_bandwidth * (sent.combines ? kCombining : 1);
  const double inside = bytes * places_chosen(group.size, sent.choices) * (local - 1.0) / local / rate;
  if (local >= group.size) return net.node_base_s + inside;
  double reached = places_chosen(nodes, sent.choices);
  if (sent.most_nodes > 0) reached = std::min(reached, sent.most_nodes);
  const double outside = bytes * reached * (nodes - 1) / nodes / net.nic_bandwidth;
  return net.nic_base_s + std::max(inside, outside);
}

/// Every rank stores `bytes` into its neighbour's memory, as Transformer Engine's userbuffers do. There is no
/// protocol, and the only launch is that of a small kernel on both sides.
inline double shift_seconds(const Network& net, Span group, double bytes) {
  const bool local = ranks_per_node(net, group) >= group.size;
  return local ? net.node_step_s + bytes / net.node_bandwidth : net.nic_step_s + bytes / net.nic_bandwidth;
}

/// One message, within a node or from one to another.
inline double hop_seconds(const Network& net, bool leaves_node, double bytes) {
  return leaves_node ? net.nic_base_s + bytes / net.nic_bandwidth
                     : net.node_base_s + bytes / net.message_bandwidth;
}

/// One message between pipeline neighbours `stride` world ranks apart, in a pipeline of `ranks`. The slowest
/// hop sets the pace of a pipeline whose ranks wait for their messages; where messages overlap with compute
/// the mean hop counts.
inline double message_seconds(const Network& net, int stride, int ranks, double bytes, bool slowest) {
  const double inside = hop_seconds(net, false, bytes);
  if (stride * ranks <= net.gpus_per_node) return inside;
  const double outside = hop_seconds(net, true, bytes);
  const double leaving = std::min(1.0, static_cast<double>(stride) / net.gpus_per_node);
  return slowest ? outside : leaving * outside + (1 - leaving) * inside;
}

}  // namespace plumbline
