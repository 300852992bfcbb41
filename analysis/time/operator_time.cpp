#include "analysis/time/operator_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/own_attention.hpp"
#include "analysis/time/tables/tabled_time.hpp"

namespace plumbline {
namespace {

/// Bytes that a call reads and writes at least.
double bytes_of(const OperatorCall& call) {
  const auto e = static_cast<double>(size_of(call.type));
  if (const auto* stream = call.as<StreamCall>())
    return static_cast<double>(stream->elements) * stream->bytes_per_element;
  if (const auto* attention = call.as<AttentionCall>()) {
    const double rows = static_cast<double>(attention->heads) * static_cast<double>(attention->queries);
    const double square = attention->unfused ? 3 * static_cast<double>(attention->queries) : 0;
    return e * rows * ((attention->backward ? 8 : 4) * static_cast<double>(attention->head_dim) + square);
  }
  const auto& gemm = *call.as<GemmCall>();
  const auto tokens = static_cast<double>(gemm.tokens);
  const auto out = static_cast<double>(gemm.out);
  const auto in = static_cast<double>(gemm.in);
  const double operand = gemm.fp8 ? 1 : e;
  // A weight gradient is read and written in fp32.
  if (gemm.pass == GemmPass::weight_gradient) return operand * tokens * (out + in) + 8 * out * in;
  const bool forward = gemm.pass == GemmPass::forward;
  return operand * (tokens * (forward ? in : out) + out * in) + e * tokens * (forward ? out : in);
}

double roofline(OperatorCall call, const HardwareProfile& hardware) {
  call.count = 1;
  const double efficiency =
      call.as<AttentionCall>() != nullptr ? hardware.attention_efficiency : hardware.gemm_efficiency;
  const double arithmetic = flops_of(call).value / (hardware.peak(call.type).value * efficiency);
  const double memory = bytes_of(call) / (hardware.memory_bandwidth.value * hardware.bandwidth_efficiency);
  return std::max(arithmetic, memory) + hardware.launch_overhead.value;
}

OperatorCall without_bias_gradient(OperatorCall call) {
  call.get<GemmCall>().bias_gradient = false;
  return call;
}

/// The gradient of a bias, apart from the weight's: `elements` of the type that is summed.
OperatorCall bias_gradient_call(const OperatorCall& product, std::int64_t elements, double traffic) {
  const StreamCall sum{.name = "bias_backward", .elements = elements, .bytes_per_element = traffic};
  return {.work = sum, .type = product.type};
}

/// Gradients of an attention backward's scores, 2 bytes each: all are written, the causal half is read.
/// cuDNN's deterministic backward on an H100 takes 0.86 to 1.16 times that longer at 4096 and 8192 tokens, 0
/// to 0.5 times at 1024, 1.9 times at 16,384 (results/recorded/nvidia-h100-80gb-hbm3/rates.jsonl).
OperatorCall scores_copy(const OperatorCall& attention) {
  const auto& of = *attention.as<AttentionCall>();
  const StreamCall copy{
      .name = "copy", .elements = of.heads * of.queries * of.queries * 3 / 4, .bytes_per_element = 4};
  return {.work = copy, .type = attention.type};
}

constexpr std::string_view kAdd = "add_";
/// A sum and its norm in one operator.
bool adds_and_norms(const OperatorCall& call) {
  const std::string_view name = call.name();
  return name.starts_with(kAdd) && name.ends_with("norm_forward");
}
/// The parts of such a call, which profiles of processors have: there one comes after the other.
OperatorCall sum_of(OperatorCall call) {
  call.get<StreamCall>().name = "add";
  call.get<StreamCall>().bytes_per_element = 3 * static_cast<double>(size_of(call.type));
  return call;
}
OperatorCall norm_of(OperatorCall call) {
  call.get<StreamCall>().name += kAdd.size();
  call.get<StreamCall>().bytes_per_element = 2 * static_cast<double>(size_of(call.type));
  return call;
}

/// A calibrated profile has whole sequences, which cuDNN attends to on a GPU. Parts of them run on own
/// kernels.
bool tables_have_its_kernel(const OperatorCall& call, const HardwareProfile& hardware) {
  const auto* attention = call.as<AttentionCall>();
  return attention == nullptr || hardware.accelerator() == nullptr || !by_own_kernels(*attention, call.type);
}

double compute_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load);

/// An accelerator does both at once: it reads and writes once, and adds the column sums of a product's
/// epilogue, in fp32, to the gradient. Elsewhere, and by tables, one part comes after the other.
double joined_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load,
                   bool at_once) {
  const auto seconds = [&](const OperatorCall& part) { return compute_time(part, hardware, load); };
  const auto* gemm = call.as<GemmCall>();
  if (gemm == nullptr) return seconds(sum_of(call)) + seconds(norm_of(call));
  const OperatorCall bias =
      at_once ? bias_gradient_call(call, gemm->out, 12)
              : bias_gradient_call(call, gemm->tokens * gemm->out, static_cast<double>(size_of(call.type)));
  return seconds(without_bias_gradient(call)) + seconds(bias);
}

/// One call of an operator.
double compute_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const bool has_tables = !hardware.alone.empty() || !hardware.busy.empty();
  const bool at_once = !has_tables && hardware.accelerator() != nullptr;
  const auto* gemm = call.as<GemmCall>();
  if (gemm != nullptr && gemm->bias_gradient) return joined_time(call, hardware, load, at_once);
  if (const auto* attention = call.as<AttentionCall>(); attention != nullptr && attention->scores_apart) {
    OperatorCall plain = call;
    plain.get<AttentionCall>().scores_apart = false;
    return compute_time(plain, hardware, load) + compute_time(scores_copy(call), hardware, load);
  }
  if (has_tables && tables_have_its_kernel(call, hardware)) {
    const double measured = tabled_time(call, hardware, load);
    if (measured >= 0) return measured + hardware.launch_overhead.value;
  }
  if (adds_and_norms(call) && !at_once) return joined_time(call, hardware, load, false);
  if (hardware.accelerator() != nullptr) {
    const double pace = call.as<StreamCall>() != nullptr ? 1 : load.slowest;
    return accelerator_time(call, hardware.accelerator()->constants.device).value * pace *
           load.collective_contention;
  }
  return roofline(call, hardware);
}

/// Distance of two sizes, in doublings.
double distance(int a, int b) {
  return std::abs(std::log2(static_cast<double>(a) / b));
}

}  // namespace

Seconds message_time(const HardwareProfile& hardware, int world, Bytes bytes, bool between_nodes) {
  const MessageTime* nearest = nullptr;
  for (const MessageTime& time : hardware.messages) {
    if (nearest == nullptr || distance(time.world, world) < distance(nearest->world, world)) nearest = &time;
  }
  const auto size = static_cast<double>(bytes.value);
  if (nearest != nullptr) return nearest->seconds.at(size);
  if (hardware.accelerator() != nullptr) {
    return {hop_seconds(hardware.accelerator()->constants.network, between_nodes, size)};
  }
  return hardware.link_latency + bytes / hardware.link_bandwidth;
}

int pipeline_ranks_per_node(const HardwareProfile& hardware, const Layout& layout) {
  if (hardware.accelerator() == nullptr) return 0;
  const int node = hardware.accelerator()->constants.network.gpus_per_node;
  return layout.world() <= node ? 0 : std::max(node / (layout.tensor * layout.data), 1);
}

namespace {

/// The measured collective of the nearest group and world size; nullptr when there is none of this kind and
/// type.
const CollectiveTime* nearest_collective(const HardwareProfile& hardware, CollectiveKind kind, int world,
                                         int ranks, DType type, bool started) {
  const CollectiveTime* nearest = nullptr;
  double nearest_distance = 0;
  for (const CollectiveTime& time : hardware.collectives) {
    if (time.kind != kind) continue;
    // One-byte elements are only moved: the same bytes of another type take as long.
    if (size_of(time.dtype) != std::max<std::int64_t>(size_of(type), 2)) continue;
    // Another group size is further away than another world, another way of waiting nearest of all.
    const double d =
        4 * distance(time.ranks, ranks) + distance(time.world, world) + (time.started == started ? 0 : 0.5);
    if (nearest == nullptr || d < nearest_distance) {
      nearest = &time;
      nearest_distance = d;
    }
  }
  return nearest;
}

}  // namespace

Seconds collective_time(const OperatorCall& call, const HardwareProfile& hardware, const Layout& layout,
                        bool started) {
  const CallKind kind = call.collective()->kind;
  const int ranks = call.collective()->ranks;
  if (ranks < 2) return {0};
  if (kind == CallKind::ring_shift && hardware.accelerator() == nullptr) {
    return message_time(hardware, layout.world(), call.bytes());
  }
  // A ring all-reduce is a reduce-scatter followed by an all-gather of equal length.
  const double halves = kind == CallKind::all_reduce ? 2 : 1;
  const auto measured = [&](CollectiveKind of) {
    return nearest_collective(hardware, of, layout.world(), ranks, call.type, started);
  };
  const auto bytes = static_cast<double>(call.bytes().value);
  if (kind == CallKind::all_gather || kind == CallKind::reduce_scatter) {
    const bool gathers = kind == CallKind::all_gather;
    const CollectiveTime* own =
        measured(gathers ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter);
    if (own != nullptr) return own->seconds.at(bytes);
  }
  // Older profiles have all-reduces only.
  const CollectiveTime* nearest = measured(CollectiveKind::all_reduce);
  if (nearest != nullptr) return nearest->seconds.at(bytes) * (halves / 2);
  if (hardware.accelerator() != nullptr) {
    return accelerator_collective_time(call, hardware.accelerator()->constants, layout);
  }
  const double n = ranks;
  const Seconds wire = call.bytes() / hardware.link_bandwidth;
  if (kind == CallKind::broadcast || kind == CallKind::reduce) return hardware.link_latency + wire;
  return hardware.link_latency * halves + wire * (halves * (n - 1) / n);
}

namespace {

/// Parameters that the processors of a host update a second: DeepSpeed's CPU Adam takes about 10 s a step for
/// Qwen-72B on four hosts of eight A100 (deepspeedai/DeepSpeed issue 6834), gradients' and parameters' copies
/// left out, which overlap in part. A guess for other hosts.
constexpr double kHostUpdates = 1.8e9;

Seconds host_update_time(const HostUpdateCall& update, const HardwareProfile& hardware, const Load& load) {
  if (hardware.accelerator() == nullptr) return {};
  const Machine& machine = hardware.accelerator()->constants;
  const int host =
      machine.network.gpus_per_host > 0 ? machine.network.gpus_per_host : machine.network.gpus_per_node;
  const auto parameters = static_cast<double>(update.parameters);
  return {parameters * (std::min(host, load.layout.world()) / kHostUpdates +
                        update.copied_bytes / machine.device.host_bandwidth)};
}

}  // namespace

Seconds time_of(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  double once = 0;
  if (const CollectiveCall* collective = call.collective()) {
    const Group group = collective->group;
    const bool started = group != Group::tensor && group != Group::model && group != Group::context &&
                         group != Group::context_heads && group != Group::expert;
    once = collective_time(call, hardware, load.layout, started).value / load.sharing;
  } else if (call.as<AllocationCall>() != nullptr) {
    once = hardware.allocation.value;
  } else if (const auto* update = call.as<HostUpdateCall>()) {
    once = host_update_time(*update, hardware, load).value;
  } else if (call.as<WaitCall>() == nullptr) {
    once = compute_time(call, hardware, load);
  }
  return {once * call.share * static_cast<double>(call.count)};
}

bool is_measured(const OperatorCall& call, const HardwareProfile& hardware) {
  const bool has_tables = !hardware.alone.empty() || !hardware.busy.empty();
  if (call.collective() != nullptr || call.as<AllocationCall>() != nullptr ||
      call.as<HostUpdateCall>() != nullptr || call.as<WaitCall>() != nullptr)
    return false;
  if (has_tables) return tables_have_its_kernel(call, hardware) && tabled_time(call, hardware, {}) >= 0;
  return hardware.accelerator() != nullptr && is_measured(call, hardware.accelerator()->constants.device);
}

}  // namespace plumbline
