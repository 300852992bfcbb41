#include "bench/evaluate/emulation.hpp"

#include <algorithm>

#include "analysis/predict/fit.hpp"
#include "analysis/step/software_of.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/call_lanes.hpp"
#include "analysis/time/host_copies.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/time_model.hpp"

namespace plumbline {
namespace {

/// The call in the terms of the time model. The transposed operand tells the GEMM's pass: Y = X·Wᵀ, dX =
/// dY·W and dW = dYᵀ·X with the token rows of X, Y and their gradients. In FP8 all are A·Bᵀ, and an
/// accumulating one is a weight's gradient.
OperatorCall operator_call(const EmulatedCall& call, DType storage) {
  const AttentionShape& attention = call.attention;
  if (call.name == "gemm" && is_fp8(call.type)) {
    return {.work = GemmCall{.pass = call.accumulate ? GemmPass::weight_gradient : GemmPass::forward,
                             .tokens = call.accumulate ? call.k : call.m,
                             .out = call.accumulate ? call.m : call.n,
                             .in = call.accumulate ? call.n : call.k,
                             .fp8 = true},
            .type = storage};
  }
  if (call.name == "gemm") {
    return {.work = GemmCall{.pass = call.a_transposed   ? GemmPass::weight_gradient
                                     : call.b_transposed ? GemmPass::forward
                                                         : GemmPass::input_gradient,
                             .tokens = call.a_transposed ? call.k : call.m,
                             .out = call.a_transposed   ? call.m
                                    : call.b_transposed ? call.n
                                                        : call.k,
                             .in = call.a_transposed || !call.b_transposed ? call.n : call.k,
                             .bias_gradient = call.bias_gradient},
            .type = call.type};
  }
  if (attention.seq > 0) {
    return {.work = AttentionCall{.backward = call.name.find("backward") != std::string_view::npos,
                                  .dropout = attention.dropout.probability > 0,
                                  .unfused = call.name.starts_with("unfused"),
                                  .queries = attention.seq,
                                  .head_dim = (attention.head_dim + attention.values()) / 2,
                                  .group = attention.heads / attention.kv_heads,
                                  .heads = attention.heads * attention.batch,
                                  .window = attention.window,
                                  .prefix = attention.prefix,
                                  .past = attention.past - attention.key_start,
                                  .keys = attention.key_count},
            .type = call.type};
  }
  return {.work = StreamCall{.name = call.name.data(),  // a literal of the operator list
                             .elements = call.elements,
                             .bytes_per_element =
                                 static_cast<double>(call.bytes) / static_cast<double>(call.elements)},
          .type = call.type};
}

CallKind kind_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return CallKind::all_gather;
    case CollectiveKind::reduce_scatter:
      return CallKind::reduce_scatter;
    case CollectiveKind::broadcast:
      return CallKind::broadcast;
    case CollectiveKind::reduce:
      return CallKind::reduce;
    case CollectiveKind::all_to_all:
      return CallKind::all_to_all;
    case CollectiveKind::all_reduce:
      break;
  }
  return CallKind::all_reduce;
}

OperatorCall collective_call(const EmulatedCollective& call) {
  return {.work = CollectiveCall{.kind = kind_of(call.kind),
                                 .group = call.group,
                                 .ranks = call.ranks,
                                 .elements = call.bytes.value / size_of(call.type)},
          .type = call.type};
}

}  // namespace

CallTime emulated_call_time(const RunConfig& config, const HardwareProfile& hardware, double slowdown) {
  const Load load = least_load(config, hardware, software_of(config));
  return [hardware, load, slowdown, storage = config.numerics.precision](const EmulatedCall& call) {
    return slowdown * time_of(operator_call(call, storage), hardware, load);
  };
}

HostCopyTime emulated_host_copies(const HardwareProfile& hardware) {
  return [hardware](Bytes bytes) { return host_copy_time(bytes, hardware, {}); };
}

EmulatedLinks emulated_links(const HardwareProfile& hardware, const Layout& layout) {
  EmulatedLinks links;
  const int per_node = pipeline_ranks_per_node(hardware, layout);
  links.message = [hardware, layout, per_node](Bytes bytes, int from, int to) {
    const int world = layout.world();
    const int here = layout.coordinates(from).pipeline;
    const int there = layout.coordinates(to).pipeline;
    bool leaves = per_node > 0 && here / per_node != there / per_node;
    // Ranks that share a sequence: the slowest hop of their ring.
    if (here == there && hardware.accelerator() != nullptr)
      leaves = leaves_node(Group::context, layout.context, layout,
                           hardware.accelerator()->constants.network.gpus_per_node);
    const Seconds whole = message_time(hardware, world, bytes, leaves);
    const Seconds latency = std::min(whole, message_time(hardware, world, {1}, leaves));
    return EmulatedTransfer{whole - latency, latency};
  };
  links.collective = [hardware, layout](const EmulatedCollective& call) {
    return collective_time(collective_call(call), hardware, layout, call.started);
  };
  links.slowdown = [hardware](const EmulatedCollective& call) {
    return slowdown_alongside(*collective_call(call).collective(), hardware);
  };
  return links;
}

RunConfig on_emulated_device(const RunConfig& config, const Schedule& schedule,
                             const HardwareProfile& hardware, int rank) {
  RunConfig sized = config;
  sized.machine.memory_budget = tensor_budget(config, schedule, hardware, rank);
  return sized;
}

}  // namespace plumbline
