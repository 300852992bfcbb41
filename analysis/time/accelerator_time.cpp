#include "analysis/time/accelerator_time.hpp"

#include <algorithm>
#include <optional>

#include "analysis/time/own_attention.hpp"

namespace plumbline {
namespace {

/// A sum with an fp32 result takes 1/0.93 of a 16-bit result's time, measured by SimuMax for weight gradients
/// on B200 (results/published/2026/simumax_kernel_efficiency.csv, layout NT).
constexpr double kShareOfFp32Result = 0.93;

/// A single product by the accelerator's measured times.
std::optional<silicon::Measured> measured_product(const GemmCall& call, DType type, const Device& device) {
  using silicon::ProductType;
  if (device.measured == nullptr || type == DType::fp32 || call.batch != 1 || call.grouped)
    return std::nullopt;
  const auto rows = static_cast<double>(call.tokens), out = static_cast<double>(call.out),
             in = static_cast<double>(call.in);
  const ProductType operands = call.fp4   ? ProductType::nvfp4
                               : call.fp8 ? ProductType::fp8
                                          : ProductType::bf16;
  const bool narrow = call.result_bytes > 0 && call.result_bytes <= 4;  // read and written in 16 bit
  const bool gradient = call.pass == GemmPass::weight_gradient;
  auto found = gradient                         ? device.measured->product(operands, out, in, rows)
               : call.pass == GemmPass::forward ? device.measured->product(operands, rows, out, in)
                                                : device.measured->product(operands, rows, in, out);
  if (found && gradient && !narrow) found->seconds /= kShareOfFp32Result;
  if (found && call.block_scaled) found->seconds *= device.mx8_slowdown;
  return found;
}

/// Attention over whole sequences by the same tables, in cuDNN's place.
std::optional<silicon::Measured> measured_attention(const AttentionCall& call, DType type,
                                                    const Device& device) {
  if (device.measured == nullptr || type == DType::fp32 || call.dropout || call.prefix > 0 || !call.cudnn)
    return std::nullopt;
  const auto heads = static_cast<double>(call.heads), sequence = static_cast<double>(call.queries),
             head = static_cast<double>(call.head_dim);
  const double window = call.window >= call.queries ? 0 : static_cast<double>(call.window);
  if (call.backward) return device.measured->attention_backward(heads, sequence, head, window);
  return device.measured->attention(heads, static_cast<double>(call.group), sequence, head, window);
}

/// A product of 16-bit operands by the accelerator's table of shapes; nothing if it has none that is near.
/// Each shape ran alone for 75 calls: those that followed an idle GPU ran at a clock that a step does not
/// sustain (MooreThreads/SimuMax@4dcaae5: in the order of its file the first shapes of every model reach 0.55
/// to 0.66 of B200's peak, all long ones 0.43 to 0.53). No single product exceeds the sustained share.
std::optional<double> tabled_product(const GemmCall& call, DType type, const Device& device) {
  if (device.rates == nullptr || call.fp8 || call.fp4 || type == DType::fp32) return std::nullopt;
  if (call.batch != 1 && !call.grouped) return std::nullopt;
  const auto rows = static_cast<double>(call.tokens);
  const auto out = static_cast<double>(call.out);
  const auto in = static_cast<double>(call.in);
  const auto seconds = [&](RatedKernel kernel, double m, double n, double k) -> std::optional<double> {
    const auto share = device.rates->share(kernel, {m, n, k});
    if (!share) return std::nullopt;
    const double sustained =
        device.gemm_share * (kernel == RatedKernel::weight_gradient ? kShareOfFp32Result : 1);
    return 2 * static_cast<double>(call.batch) * m * n * k /
           (device.peak_16bit * std::min(*share, sustained));
  };
  if (call.grouped) {
    if (call.pass == GemmPass::forward) return seconds(RatedKernel::grouped_forward, rows, out, in);
    if (call.pass == GemmPass::input_gradient)
      return seconds(RatedKernel::grouped_input_gradient, rows, out, in);
    return seconds(RatedKernel::grouped_weight_gradient, rows, out, in);
  }
  if (call.pass == GemmPass::forward) return seconds(RatedKernel::forward, rows, out, in);
  if (call.pass == GemmPass::input_gradient) return seconds(RatedKernel::input_gradient, rows, in, out);
  const bool narrow = call.result_bytes > 0 && call.result_bytes <= 4;  // read and written in 16 bit
  return seconds(narrow ? RatedKernel::weight_gradient_16bit : RatedKernel::weight_gradient, out, in, rows);
}

/// Causal attention over whole sequences by the same table, whose rates count all pairs.
std::optional<double> tabled_attention(const AttentionCall& call, DType type, const Device& device) {
  if (device.rates == nullptr || call.dropout || call.window > 0 || call.prefix > 0 || type == DType::fp32)
    return std::nullopt;
  const auto heads = static_cast<double>(call.heads);
  const auto seq = static_cast<double>(call.queries);
  const auto head = static_cast<double>(call.head_dim);
  const auto share = device.rates->share(
      call.backward ? RatedKernel::attention_backward : RatedKernel::attention_forward, {heads, seq, head});
  if (!share) return std::nullopt;
  return (call.backward ? 10 : 4) * heads * seq * seq * head / (device.peak_16bit * *share);
}

double gemm_seconds(const GemmCall& call, DType type, const Device& device) {
  const auto tokens = static_cast<double>(call.tokens);
  const auto out = static_cast<double>(call.out);
  const auto in = static_cast<double>(call.in);
  const auto element = static_cast<double>(size_of(type));
  const double operand = call.fp4 ? 0.5 : call.fp8 ? 1 : element;
  const double mx8 = device.peak_mx8 / (call.grouped ? 1 : device.mx8_slowdown);  // measured apart
  const double flops_per_s =
      call.fp4   ? device.peak_4bit * device.gemm_share_4bit
      : call.fp8 ? (call.block_scaled ? mx8 : device.peak_8bit) * device.gemm_share_8bit
                 : device.gemm_share * (type == DType::fp32 ? device.peak_fp32 : device.peak_16bit);
  if (const auto measured = measured_product(call, type, device)) return measured->seconds;
  if (const auto measured = tabled_product(call, type, device)) return *measured;
  const auto product = [&](double m, double n, double k, double output_bytes) {
    const double spread = call.pass == GemmPass::weight_gradient ? 0 : call.spread;
    const double others = call.apart ? static_cast<double>(call.batch - 1) * device.kernel_s : 0;
    return others + product_seconds(device, flops_per_s, operand, m, n, k, static_cast<double>(call.batch),
                                    call.result_bytes > 0 ? call.result_bytes : output_bytes, spread);
  };
  switch (call.pass) {
    case GemmPass::forward:
      return product(tokens, out, in, element);
    case GemmPass::input_gradient:
      return product(tokens, in, out, element);
    case GemmPass::weight_gradient:
      break;
  }
  // A weight gradient is read and written in fp32.
  return product(out, in, tokens, 8);
}

/// The device with flash attention that reaches `most_share` of its peak at most, whatever the heads' size.
Device with_slower_attention(const Device& device, double head, double most_share) {
  Device slower = device;
  slower.rates = nullptr;
  slower.attention.forward =
      std::min(device.attention.forward, most_share * head_slowdown(device, head, false));
  slower.attention.backward =
      std::min(device.attention.backward, most_share * head_slowdown(device, head, true));
  return slower;
}

/// Time of attention over whole sequences, without the measured forward.
double attention_by_constants(const AttentionCall& call, DType type, const Device& device) {
  if (call.most_share > 0) {
    AttentionCall unbounded = call;
    unbounded.most_share = 0;
    const auto head = static_cast<double>(call.head_dim);
    return attention_by_constants(unbounded, type, with_slower_attention(device, head, call.most_share));
  }
  if (const auto measured = tabled_attention(call, type, device)) return *measured;
  if (type == DType::fp32 && device.peak_16bit != device.peak_fp32) {
    Device plain = device;
    plain.peak_16bit = device.peak_fp32;
    return attention_by_constants(call, type, plain);
  }
  const double speedup = !call.cudnn     ? 1
                         : call.backward ? device.attention.cudnn_backward_speedup
                                         : device.attention.cudnn_forward_speedup;
  return flash_seconds(device, static_cast<double>(call.heads), static_cast<double>(call.queries),
                       static_cast<double>(call.head_dim), call.backward, call.dropout,
                       static_cast<double>(call.window), static_cast<double>(call.prefix)) /
         speedup;
}

/// Attention that keeps its probabilities: products of whole squares over all heads, and passes over the
/// squares. Forward, scores are read below the diagonal alone.
double unfused_attention_seconds(const AttentionCall& call, DType type, const Device& device) {
  const auto e = static_cast<double>(size_of(type));
  const auto heads = static_cast<double>(call.heads);
  const auto seq = static_cast<double>(call.queries);
  const auto head = static_cast<double>(call.head_dim);
  const double flops_per_s = device.gemm_share * (type == DType::fp32 ? device.peak_fp32 : device.peak_16bit);
  const double scores = product_seconds(device, flops_per_s, e, seq, seq, head, heads, e);
  const double values = product_seconds(device, flops_per_s, e, seq, head, seq, heads, e);
  const double numbers = heads * seq * seq;
  const double masks = call.dropout ? numbers : 0;
  if (call.backward) return scores + 3 * values + stream_seconds(device, 3 * e * numbers + masks);
  const double softmax = stream_seconds(device, 1.5 * e * numbers + (1 + e) * masks);
  const double copied = heads - heads / static_cast<double>(call.group);
  const double repeated = copied > 0 ? stream_seconds(device, 4 * e * copied * seq * head) : 0;
  return scores + values + std::max(softmax, masks * device.random_s) + repeated;
}

double attention_seconds(const AttentionCall& call, DType type, const Device& device) {
  if (call.fp8) {  // the backward has five products for the forward's two, and gains as much by each
    AttentionCall wide = call;
    wide.fp8 = false;
    const double all = attention_seconds(wide, type, device);
    if (!call.backward) return all * device.attention.eight_bit;
    wide.backward = false;
    return std::max(all - 2.5 * (1 - device.attention.eight_bit) * attention_seconds(wide, type, device),
                    0.5 * all);
  }
  if (const auto own = by_own_kernels(call, type)) return attention_seconds(*own, type, device);
  if (call.unfused) return unfused_attention_seconds(call, type, device);
  if (call.cached) {  // as long as reading keys and values takes, or the pairs, in a kernel of its own
    AttentionCall computed = call;
    computed.cached = false;
    const double read = read_elements(call) * static_cast<double>(size_of(type));
    return std::max(stream_seconds(device, read), attention_seconds(computed, type, device));
  }
  if (call.past > 0 && call.most_share > 0) return own_part_seconds(call, type, device);
  if (call.past > 0) {  // the last queries of a sequence, or later ones: their part of its pairs
    AttentionCall whole = call;
    whole.past = whole.keys = 0;
    whole.queries = (call.keys > 0 ? std::min(call.past, call.keys) : call.past) + call.queries;
    return attention_seconds(whole, type, device) * pairs_of(call) / pairs_of(whole);
  }
  if (const auto measured = measured_attention(call, type, device)) return measured->seconds;
  const double all = attention_by_constants(call, type, device);
  if (!call.backward) return all;
  AttentionCall forward = call;
  forward.backward = false;
  const auto measured = measured_attention(forward, type, device);
  if (!measured) return all;
  // The backward has as much softmax as the forward, whose products take as long as expected: it gains, or
  // loses, the same time. Half of the expected time is left to it at least, which is a guess.
  const double gained = attention_by_constants(forward, type, device) - measured->seconds;
  return std::max(all - gained, 0.5 * all);
}

}  // namespace

Seconds accelerator_time(const OperatorCall& call, const Device& device) {
  if (const auto* gemm = call.as<GemmCall>()) return {gemm_seconds(*gemm, call.type, device)};
  if (const auto* attention = call.as<AttentionCall>())
    return {attention_seconds(*attention, call.type, device)};
  const auto* stream = call.as<StreamCall>();
  if (stream == nullptr) return {0};
  const auto elements = static_cast<double>(stream->elements);
  const double bytes = elements * stream->bytes_per_element;
  if (stream->rate != StreamRate::memory) {
    const bool convolves = stream->rate == StreamRate::convolution;
    const double share = convolves ? device.scans.convolution : device.scans.recurrence;
    return {device.kernel_s + bytes / (device.bandwidth * share)};
  }
  const double streaming = stream_seconds(device, bytes);
  // A mask is one byte per number that is drawn: as a rule drawing takes longer than writing.
  const bool draws = stream->random || call.name() == "dropout_mask";
  return {draws ? std::max(streaming, elements * device.random_s) : streaming};
}

bool is_measured(const OperatorCall& call, const Device& device) {
  const auto known = [](const std::optional<silicon::Measured>& found) {
    return found && found->basis != silicon::Basis::estimated;
  };
  if (const auto* gemm = call.as<GemmCall>()) {
    const auto measured = measured_product(*gemm, call.type, device);
    return measured ? known(measured) : tabled_product(*gemm, call.type, device).has_value();
  }
  const auto* attention = call.as<AttentionCall>();
  if (attention == nullptr || attention->cached || attention->unfused || attention->past > 0) return false;
  return known(measured_attention(*attention, call.type, device)) ||
         tabled_attention(*attention, call.type, device).has_value();
}

Layout near_layout(Layout layout, int gpus_per_node) {
  const auto up = [](int a, int b) { return (a + b - 1) / b; };
  layout.data = std::min(layout.data, up(gpus_per_node, layout.tensor));
  layout.pipeline = std::min(layout.pipeline, up(gpus_per_node, layout.tensor * layout.data) + 1);
  return layout;
}

Span span_of(Group group, int ranks, const Layout& layout, int gpus_per_node) {
  // Ranks far from the first node change nothing.
  const std::vector<int> members = near_layout(layout, gpus_per_node).members(group, 0);
  const auto outside = [&](int rank) { return rank >= gpus_per_node; };
  const auto local = std::find_if(members.begin(), members.end(), outside) - members.begin();
  return {ranks, gpus_per_node / std::max(static_cast<int>(local), 1)};
}

bool leaves_node(Group group, int ranks, const Layout& layout, int gpus_per_node) {
  Network node;
  node.gpus_per_node = gpus_per_node;
  return ranks_per_node(node, span_of(group, ranks, layout, gpus_per_node)) < ranks;
}

namespace {

/// A collective of neighbours within a node by the accelerator's measured times.
std::optional<silicon::Measured> measured_collective(const CollectiveCall& of, const Machine& machine,
                                                     Span span, double bytes) {
  using silicon::Collective;
  if (machine.device.measured == nullptr || machine.network.of_user) return std::nullopt;
  if (ranks_per_node(machine.network, span) < span.size) return std::nullopt;
  const auto look_up = [&](Collective operation) {
    return machine.device.measured->collective(operation, span.size, bytes);
  };
  switch (of.kind) {
    case CallKind::all_reduce:
      return look_up(Collective::all_reduce);
    case CallKind::all_gather:
      return look_up(Collective::all_gather);
    case CallKind::reduce_scatter:
      return look_up(Collective::reduce_scatter);
    case CallKind::all_to_all:
      if (of.choices == 0) return look_up(Collective::alltoall);
      return std::nullopt;
    case CallKind::broadcast:
    case CallKind::reduce:
    case CallKind::ring_shift:
      break;
  }
  return std::nullopt;
}

Span span_of(const CollectiveCall& of, const Network& network, const Layout& layout) {
  return of.stride > 0 ? Span{of.ranks, of.stride}
                       : span_of(of.group, of.ranks, layout, network.gpus_per_node);
}

}  // namespace

Seconds accelerator_collective_time(const OperatorCall& call, const Machine& machine, const Layout& layout) {
  const CollectiveCall& of = *call.collective();
  const auto measured = measured_collective(of, machine, span_of(of, machine.network, layout),
                                            static_cast<double>(call.bytes().value));
  return measured ? Seconds{measured->seconds} : accelerator_collective_time(call, machine.network, layout);
}

Seconds accelerator_collective_time(const OperatorCall& call, const Network& network, const Layout& layout) {
  const CollectiveCall& of = *call.collective();
  const Span span = span_of(of, network, layout);
  const auto bytes = static_cast<double>(call.bytes().value);
  if (of.kind == CallKind::all_reduce) return {all_reduce_seconds(network, span, bytes)};
  if (of.kind == CallKind::ring_shift && of.group == Group::context) {  // NCCL's messages, the slowest hop
    const int members = std::max(of.ranks, layout.context);             // of a ring of groups: all of them
    return {hop_seconds(network, leaves_node(Group::context, members, layout, network.gpus_per_node), bytes)};
  }
  if (of.kind == CallKind::all_to_all && of.choices > 0) {
    return {dispatch_seconds(network, span,
                             {.bytes = bytes,
                              .choices = static_cast<double>(of.choices),
                              .most_nodes = static_cast<double>(of.most_nodes),
                              .weights = static_cast<double>(of.weights),
                              .combines = of.combines})};
  }
  if (of.kind == CallKind::all_to_all) return {all_to_all_seconds(network, span, bytes)};
  if (of.kind == CallKind::ring_shift) return {shift_seconds(network, span, bytes)};
  // A broadcast passes the whole buffer on, and so does a sum for one rank.
  const double n = of.ranks;
  const bool whole = of.kind == CallKind::broadcast || of.kind == CallKind::reduce;
  const double passed_on = whole ? bytes * n / (n - 1) : bytes;
  return {scatter_seconds(network, span, passed_on)};
}

}  // namespace plumbline
