// Appends the calls of a framework's list to a part of an action.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/work/frameworks/torchtitan_context.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

/// Piece of a reduced gradient of `elements` elements, summed over the optimizer instances: its neighbours
/// are as many ranks apart as an instance has.
inline OperatorCall between_instances(const StageShape& s, std::int64_t elements, DType type) {
  OperatorCall call =
      CallList::collective_call(CallKind::all_reduce, "gradient all-reduce between instances", Group::data,
                                s.sharding.optimizer_instances, elements / s.sharding.state_shards, type);
  call.get<CollectiveCall>().stride = s.sharding.tensor * s.sharding.state_shards;
  return call;
}

class FrameworkCalls {
 public:
  FrameworkCalls(const StageShape& shape, UnitWork& work)
      : s_(shape), sw_(*shape.software), list_(shape, highest_ticket(work)), work_(work) {}
  ~FrameworkCalls() { work_.calls.insert(work_.calls.end(), list_.calls.begin(), list_.calls.end()); }
  FrameworkCalls(const FrameworkCalls&) = delete;
  FrameworkCalls& operator=(const FrameworkCalls&) = delete;

  /// A memory-bound kernel; `bytes`: read and written per element.
  void stream(const char* name, std::int64_t elements, double bytes) { list_.memory(name, elements, bytes); }
  /// The same of a mixer's kernel that has a rate of its own.
  void scanned(const char* name, std::int64_t elements, double bytes, StreamRate rate) {
    list_.memory(name, elements, bytes);
    if (elements > 0) list_.last<StreamCall>().rate = rate;
  }
  /// The same by two kernels for each of `experts`, which have `elements` in all.
  void each(const char* name, std::int64_t experts, std::int64_t elements, double bytes) {
    list_.memory(name, elements / 2, bytes);
    list_.calls.back().count = 2 * experts;
  }
  void draw(const char* name, std::int64_t elements, double bytes) {
    list_.memory(name, elements, bytes);
    if (elements > 0) list_.last<StreamCall>().random = true;
  }
  /// A product of a layer: with FP8 operands if the framework has them.
  void linear(const char* label, GemmPass pass, std::int64_t out, std::int64_t in, double share = 1) {
    gemm(label, pass, out, in);
    auto& product = list_.last<GemmCall>();
    product.fp8 = s_.numerics.framework_fp8 && !s_.numerics.fp4;
    product.fp4 = s_.numerics.fp4;
    product.block_scaled = product.fp8 && s_.numerics.fp8_recipe == Fp8Recipe::mxfp8;
    list_.calls.back().share = share;
  }
  /// The same over the rows of the stream that sequence parallelism leaves this rank.
  void rows_linear(const char* label, GemmPass pass, std::int64_t out, std::int64_t in, double share) {
    linear(label, pass, out, in, share);
    list_.last<GemmCall>().tokens = s_.stream.rows;
  }
  // Experts spread over ranks:
  /// Experts' products are launched one by one.
  bool by_expert() const { return sw_.mixtures.expert_product_s > kOneLaunch; }
  /// The same product of every expert of this rank, in one call.
  void grouped(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    linear(label, pass, out, in);
    auto& call = list_.last<GemmCall>();
    call.grouped = true;
    call.batch = s_.expert.local;
    call.tokens = std::max<std::int64_t>(1, s_.expert.rows / s_.expert.local);
    // Transformer Engine multiplies expert by expert in every precision (multi_stream_cublas_gemm): on four
    // streams of an H100 a product in bf16 takes 2 to 4 us more than at a large one's rate
    // (results/recorded/nvidia-h100-80gb-hbm3).
    call.apart = by_expert() && !s_.graphs.step;
    // Tokens that choose independently, with a random router too (moe_router_force_load_balancing). FP8 fills
    // rows up to 16 or 32, less than a tile.
    if (!s_.moe.padded) call.spread = std::sqrt(static_cast<double>(call.tokens));
    inside();
  }
  /// `share`: of the time of a product in 16 bits.
  void router(GemmPass pass, double share) {
    gemm("router", pass, s_.moe.experts, s_.stream.hidden);
    list_.last<GemmCall>().tokens = s_.expert.sent;
    list_.calls.back().share = share;
  }
  /// Among `ranks` ranks, `stride` apart in the world.
  void expert_collective(CallKind kind, const char* label, int ranks, int stride, std::int64_t elements) {
    const std::size_t before = list_.calls.size();
    list_.collective(kind, label, Group::expert, ranks, elements, s_.numerics.type);
    if (list_.calls.size() > before) list_.last<CollectiveCall>().stride = stride;
  }
  /// Tokens to the ranks and nodes of their experts, each once, or their results back: `elements` of all
  /// tokens.
  /// `weights`: bytes of the tokens' weights, which travel along. `combines`: results, which are added up.
  void dispatched(const char* label, std::int64_t elements, std::int64_t weights, bool combines) {
    const ExpertShape& expert = s_.expert;
    expert_collective(CallKind::all_to_all, label, expert.ranks, expert.tensor, elements);
    if (expert.ranks == 1 || elements == 0) return;
    auto& call = list_.last<CollectiveCall>();
    call.choices = expert.chosen;
    call.most_nodes = expert.most_nodes;
    call.weights = weights;
    call.combines = combines;
  }
  /// Makes the last call an exchange that overlaps with computation of another micro-batch, for which the
  /// layer's own stands (run_alongside).
  void alongside() {
    auto& call = list_.last<CollectiveCall>();
    call.ticket = kAlongside;
    if (s_.expert.dispatcher == TokenDispatcher::flex) call.processors = kFlexProcessors;
  }
  /// Starts the last call, an exchange; the calls up to its end run alongside.
  int begin_exchange(const char* label) {
    const bool flex = s_.expert.dispatcher == TokenDispatcher::flex;
    return start(label, flex ? kFlexProcessors : 0);
  }
  void end_exchange(int ticket) { list_.wait(ticket); }
  /// Runs the first of the marked exchanges alongside the layer's calls up to there (`backward`: up to the
  /// last one), the others alongside the rest. Megatron-Core pairs each exchange with attention or experts of
  /// the other micro-batch (core/pipeline_parallel/combined_1f1b.py): a dispatch with the experts' backward,
  /// a combine with attention's backward, a backward exchange with either's forward. Each of the four parts
  /// of a layer hides one exchange, whichever it is.
  void run_alongside(bool backward = false) {
    std::vector<OperatorCall> calls = std::exchange(list_.calls, {});
    std::vector<OperatorCall> exchanges;
    std::vector<OperatorCall> parts[2];
    std::size_t left = static_cast<std::size_t>(std::count_if(calls.begin(), calls.end(), is_marked));
    const std::size_t cut = backward ? 0 : left - std::min<std::size_t>(left, 1);  // behind as many
    for (OperatorCall& call : calls) {
      if (!is_marked(call)) {
        parts[left > cut ? 0 : 1].push_back(call);
        continue;
      }
      --left;
      call.get<CollectiveCall>().ticket = list_.next_ticket();
      exchanges.push_back(call);
    }
    std::size_t next = 0;
    for (std::size_t part = 0; part < 2; ++part) {
      const std::size_t end = part == 1 ? exchanges.size() : std::min<std::size_t>(exchanges.size(), 1);
      list_.calls.insert(list_.calls.end(), exchanges.begin() + static_cast<std::ptrdiff_t>(next),
                         exchanges.begin() + static_cast<std::ptrdiff_t>(end));
      list_.calls.insert(list_.calls.end(), parts[part].begin(), parts[part].end());
      for (; next < end; ++next) list_.wait(exchanges[next].collective()->ticket);
    }
  }
  void gemm(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    list_.gemm(label, pass, out, in);
    const bool adds = pass == GemmPass::weight_gradient && sw_.kernels.fused_weight_gradient;
    list_.last<GemmCall>().result_bytes = static_cast<double>(adds ? 2 * s_.numerics.g() : s_.numerics.e());
  }
  /// `heads` products of a sequence's scores or values.
  void batched(const char* label, std::int64_t m, std::int64_t n, std::int64_t k) {
    list_.gemm(label, GemmPass::forward, n, k);
    auto& call = list_.last<GemmCall>();
    call.tokens = m;
    call.batch = s_.attention.heads * s_.stream.batch;
    call.result_bytes = static_cast<double>(s_.numerics.e());
  }
  void attention(bool backward, std::int64_t window) {
    if (s_.cp.ranks == 1) return kernel(backward, window);
    if (is_torch_ring(s_))
      return torch_ring(s_, backward, list_, [&] { step_kernel(backward, window, s_.cp.ranks); });
    if (s_.cp.comm_type == CpCommType::p2p) return ring_attention(backward, window);
    if (s_.cp.comm_type == CpCommType::all_gather) return gather_attention(backward, window);
    exchanged_attention(backward, window);
  }
  /// Transformer Engine's ring (attention with cp_comm_type p2p). While a rank computes with one rank's K/V,
  /// the next rank's are in transit; in the backward also their gradients. With two chunks of a sequence per
  /// rank every step has as many pairs as a causal sequence of the rank's tokens. Partial results are merged
  /// step by step: three quarters of the rows on average.
  void ring_attention(bool backward, std::int64_t window) {
    const char* label = backward ? "context ring backward" : "context ring forward";
    const std::int64_t own = s_.stream.tokens * (s_.attention.k + s_.attention.values());
    for (int step = 0; step < s_.cp.ring(); ++step) {
      const std::int64_t keys = step + 1 < s_.cp.ring() ? own : 0;
      const std::int64_t gradients = backward && step > 0 ? own : 0;
      list_.collective(CallKind::ring_shift, label, Group::context, s_.cp.ring(), keys + gradients,
                       s_.numerics.type);
      const int ticket = keys + gradients > 0 ? list_.start_collective(label) : 0;
      step_kernel(backward, window, s_.cp.ring());
      if (ticket > 0) list_.wait(ticket);
      stream("attention merge", s_.stream.tokens * s_.attention.attended() * 3 / 4, 6);
      if (backward && step > 0) stream("attention merge", own, 6);
    }
  }
  /// Every rank gets whole sequences of its part of the heads, and returns attention's results
  /// (DeepSpeed-Ulysses, arXiv:2309.14509); backward their gradients the other way round. With a2a+p2p these
  /// ranks are a group, the groups a ring.
  void exchanged_attention(bool backward, std::int64_t window) {
    const auto exchange = [&](std::int64_t width) {
      list_.collective(CallKind::all_to_all, "context all-to-all",
                       s_.cp.ring() == 1 ? Group::context : Group::context_heads, s_.cp.head_ranks,
                       s_.stream.tokens * width, s_.numerics.type);
    };
    exchange(backward ? s_.attention.attended() : s_.attention.qkv());
    if (s_.cp.ring() > 1) {
      ring_attention(backward, window);
    } else {
      kernel(backward, window);
      list_.last<AttentionCall>().heads /= s_.cp.head_ranks;
    }
    exchange(backward ? s_.attention.qkv() : s_.attention.attended());
  }
  /// An exchange of heads for tokens among the ranks of a sequence, of `elements` elements of a rank.
  void context_exchange(std::int64_t elements) {
    if (s_.cp.ranks > 1)
      list_.collective(CallKind::all_to_all, "context all-to-all", Group::context, s_.cp.ranks, elements,
                       s_.numerics.type);
  }
  /// Keys and values of all ranks are gathered before, backward once more, and their gradients scattered.
  void gather_attention(bool backward, std::int64_t window) {
    const std::int64_t whole = s_.cp.ranks * s_.stream.tokens * (s_.attention.k + s_.attention.values());
    list_.collective(CallKind::all_gather, "context all-gather", Group::context, s_.cp.ranks, whole,
                     s_.numerics.type);
    kernel(backward, window);
    list_.calls.back().share /= s_.cp.ranks;
    if (backward)
      list_.collective(CallKind::reduce_scatter, "context reduce-scatter", Group::context, s_.cp.ranks, whole,
                       s_.numerics.type);
  }
  /// The tensor-parallel collectives of a layer, in the storage type: all-reduces of `sums` results, or with
  /// sequence parallelism their scattered sums and all-gathers of as many inputs as `gathers`.
  void edges(const char* label, int gathers, int sums, double share = 1) {
    const std::int64_t whole = s_.stream.tokens * s_.stream.hidden;
    const auto add = [&](CallKind kind, int count) {
      const std::size_t before = list_.calls.size();
      if (count > 0)
        list_.collective(kind, label, Group::tensor, s_.sharding.tensor, whole, s_.numerics.type);
      if (list_.calls.size() == before) return;
      list_.calls.back().count = count;
      list_.calls.back().share = share;
    };
    if (!s_.sharding.sequence_parallel) return add(CallKind::all_reduce, sums);
    add(CallKind::all_gather, gathers);
    add(CallKind::reduce_scatter, sums);
  }
  void collective(CallKind kind, const char* label, std::int64_t elements, DType type) {
    list_.collective(kind, label, Group::tensor, s_.sharding.tensor, elements, type);
  }
  // tp_comm_overlap of Megatron-Core by Transformer Engine's userbuffers. The overlap of each product, and
  // the pieces and multiprocessors of its collectives, are the defaults of initialize_ub
  // (transformer_engine/pytorch/module/base.py).

  /// "ring_exchange": every step multiplies a tensor rank's rows while they are stored into the next rank's
  /// memory.
  void ring_linear(const char* gather, const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    for (int step = 0; step < s_.sharding.tensor; ++step) {
      const bool passes_on = step + 1 < s_.sharding.tensor;
      int ticket = 0;
      if (passes_on) {
        collective(CallKind::ring_shift, gather, s_.stream.rows * s_.stream.hidden, s_.numerics.type);
        ticket = start(gather, 1);
      }
      linear(label, pass, out, in);
      list_.last<GemmCall>().tokens = s_.stream.rows;
      if (passes_on) list_.wait(ticket);
    }
  }
  /// "pipeline": a split of the result is reduced and scattered while the next is computed.
  void pipelined_linear(const char* scatter, const char* label, GemmPass pass, std::int64_t out,
                        std::int64_t in) {
    constexpr int kSplits = 4;
    int ticket = 0;
    for (int split = 0; split < kSplits; ++split) {
      linear(label, pass, out, in);
      list_.last<GemmCall>().tokens = (s_.stream.tokens + kSplits - 1) / kSplits;
      if (ticket > 0) list_.wait(ticket);
      collective(CallKind::reduce_scatter, scatter, s_.stream.tokens * s_.stream.hidden / kSplits,
                 s_.numerics.type);
      ticket = start(scatter, kBulkProcessors);
    }
    list_.wait(ticket);
  }
  /// "bulk": the input is gathered during the input gradient, the result scattered during the weight
  /// gradient.
  void bulk_gradients(const char* gather, const char* scatter, const char* label, std::int64_t out,
                      std::int64_t in) {
    const std::int64_t whole = s_.stream.tokens * s_.stream.hidden;
    collective(CallKind::all_gather, gather, whole, s_.numerics.type);
    const int gathered = start(gather, kBulkProcessors);
    linear(label, GemmPass::input_gradient, out, in);
    list_.wait(gathered);
    collective(CallKind::reduce_scatter, scatter, whole, s_.numerics.type);
    const int scattered = start(scatter, kBulkProcessors);
    linear(label, GemmPass::weight_gradient, out, in);
    list_.wait(scattered);
  }
  /// An input-gradient `product` of gathered rows of the stream, which sequence parallelism gathers once more
  /// meanwhile for the weight gradient, in FP8 if products read it (Megatron-Core, tensor_parallel/layers.py;
  /// Transformer Engine, pytorch/module/layernorm_linear.py). Not counted alongside overlapped exchanges of
  /// experts, which would share its lane.
  template <class Product>
  void while_gathered(const char* label, const Product& product) {
    const bool gathers = s_.sharding.sequence_parallel && s_.sharding.tensor > 1 && !s_.adapters.frozen();
    int ticket = 0;
    if (megatron() && gathers && !s_.expert.overlapped) {
      const std::int64_t whole = s_.stream.tokens * s_.stream.hidden;
      collective(CallKind::all_gather, label, s_.numerics.framework_fp8 ? whole / 2 : whole,
                 s_.numerics.type);
      ticket = start(label, kBulkProcessors);
    }
    product();
    if (ticket > 0) list_.wait(ticket);
  }
  /// Casts of FP8 operands from 16-bit values: read, written as rows and as columns, which the backward's
  /// products read (Transformer Engine, common/cast and recipe). A scale of the current tensor takes one more
  /// pass (also that of NVFP4, arXiv:2509.25149). Delayed scaling takes none, and the producer of the values
  /// (`made_here`: a norm) writes FP8 directly. Compiled torchao has one form and everything in one kernel.
  /// `kernels`: that the elements are split over, one after the other.
  void casts(std::int64_t elements, bool made_here, std::int64_t kernels = 1) {
    if (!s_.numerics.framework_fp8 || elements == 0) return;
    const int forms = s_.adapters.frozen()
                          ? 1
                          : s_.numerics.fp8_forms;  // frozen weights have no gradient that reads columns
    double bytes = 2 + s_.numerics.operand_bytes * forms;
    if (sw_.fp8.always) {
      bytes = 3;
    } else if (sw_.fp8.fused_casts) {
      bytes = 2;  // XLA quantizes in the kernel that makes the values, and transposes them separately
    } else if (s_.numerics.fp4 || s_.numerics.fp8_recipe == Fp8Recipe::tensorwise) {
      bytes += 2;
    } else if (s_.numerics.fp8_recipe == Fp8Recipe::delayed) {
      if (made_here) return;  // at most two bytes as before, one of each form
    } else {
      bytes += 2 * (s_.numerics.fp8_recipe == Fp8Recipe::mxfp8 ? 1.0 / 32 : 4.0 / 128);  // scales
    }
    stream(s_.numerics.fp4 ? "cast to fp4" : "cast to fp8", elements / kernels, bytes);
    list_.calls.back().count = kernels;
  }
  /// Casts around attention's kernel in FP8, which other layers see in 16 bits: of what it reads (`read`
  /// elements), with a pass for the scale unless scaling is delayed, and of what it `made`.
  void attention_casts(std::int64_t read, std::int64_t made) {
    if (!s_.attention.fp8) return;
    stream("cast to fp8", read, s_.numerics.fp8_recipe == Fp8Recipe::delayed ? 3 : 5);
    stream("cast from fp8", made, 3);
  }
  /// Operators that casts launch for `products` products in one pass.
  double cast_operators(int products) const {
    return s_.numerics.framework_fp8 && !sw_.fp8.always ? 2.0 * products : 0;
  }
  /// Processor time to launch `operators` operators, part of which graphs capture.
  void launches(double operators, double captured) {
    work_.host +=
        Seconds{operators * (captured * sw_.host.graph_operator_s + (1 - captured) * sw_.host.operator_s)};
  }
  /// The same for a layer's, for those of its dispatch and experts, and for those that only a graph of the
  /// whole step captures.
  void layer_launches(double operators) { launches(operators, s_.graphs.layer); }
  void expert_launches(double operators) { launches(operators, s_.graphs.experts ? 1 : 0); }
  void launches_eagerly(double operators) { launches(operators, s_.graphs.step ? 1 : 0); }
  /// The last call is a module's, whose Python takes so many seconds before and behind its launches.
  void wrapped(double before, double behind) {
    if (list_.calls.empty()) return;
    list_.calls.back().launch.python_before = Seconds{before};
    list_.calls.back().launch.python_behind = Seconds{behind};
  }
  /// Seconds of a module's Python besides its launches.
  void python(double seconds, double captured) {
    const double whole = s_.graphs.step ? 1 : captured;
    work_.host_python += Seconds{(1 - whole) * seconds};
  }
  /// Megatron-Core alone has buckets.
  bool megatron() const { return sw_.communication.buckets(); }
  /// The same for products of experts, which Transformer Engine launches one by one.
  void launches_products(double products) {
    work_.host_products += Seconds{products * sw_.mixtures.expert_product_s};
  }
  /// Launches of the last call: `operators` up to its kernel, `behind` it others. `reads`: after the host has
  /// read from the device; see HostLane.
  void launched(double operators, bool reads = false, double behind = 0) {
    if (list_.calls.empty()) return;
    HostLaunch& launch = list_.calls.back().launch;
    launch.reads = launch.reads || reads;
    launch.before = Seconds{operators * sw_.host.operator_s};
    launch.behind = Seconds{behind * sw_.host.operator_s};
    const auto* product = list_.calls.back().as<GemmCall>();
    if (product != nullptr && product->grouped) launch.product_s = sw_.mixtures.expert_product_s;
  }

 private:
  static constexpr double kBulkProcessors = 16;
  static constexpr double kOneLaunch = 1e-8;  // launch times below are of one kernel for all experts
  static constexpr int kAlongside = -1;
  // moe_hybridep_num_sms of Megatron-Core's TransformerConfig; DeepEP takes 20.
  static constexpr double kFlexProcessors = 16;
  void kernel(bool backward, std::int64_t window) {
    list_.attention(backward, window);
    auto& call = list_.last<AttentionCall>();
    call.cudnn = sw_.kernels.cudnn_attention;
    call.fp8 = s_.attention.fp8;
    call.most_share = backward ? sw_.kernels.flash_backward_share : sw_.kernels.flash_forward_share;
  }
  /// One step of a ring.
  void step_kernel(bool backward, std::int64_t window, int ring) {
    kernel(backward, window);
    list_.last<AttentionCall>().queries = s_.stream.seq / ring;
    list_.last<AttentionCall>().heads /= s_.cp.head_ranks;
  }
  /// Experts of a rank with uneven rows.
  void inside() { list_.calls.back().share *= s_.expert.inside; }
  static bool is_marked(const OperatorCall& call) {
    return call.collective() != nullptr && call.collective()->ticket == kAlongside;
  }
  static int highest_ticket(const UnitWork& work) {
    int highest = 0;
    for (const OperatorCall& call : work.calls)
      if (const auto* collective = call.collective()) highest = std::max(highest, collective->ticket);
    return highest;
  }
  /// The last collective of that label is started.
  int start(const char* label, double processors) {
    list_.last<CollectiveCall>().processors = processors;
    return list_.start_collective(label);
  }

  const StageShape& s_;
  const Software& sw_;
  CallList list_;
  UnitWork& work_;
};

}  // namespace plumbline
