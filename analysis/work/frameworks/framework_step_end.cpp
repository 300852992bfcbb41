// ARG and OPT of other frameworks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/work/framework_list.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/frameworks/framework_mixture.hpp"
#include "analysis/work/muon.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Elements of a rank that train: of experts that are spread over ranks, and the rest.
struct Trained {
  std::int64_t experts = 0;
  std::int64_t rest = 0;
};
Trained trained_elements(const HeldStages& rank) {
  Trained elements;
  for (const StageShape& s : rank.held) {
    elements.experts += spread_expert_elements(s);
    elements.rest += trainable_elements(s) - spread_expert_elements(s);
  }
  return elements;
}

/// Elements that a rank updates besides the matrices of layers.
std::int64_t others_of(const HeldStages& rank) {
  std::int64_t elements = 0;
  for (const StageShape& s : rank.held)
    elements += elements_of(s).whole() - s.over_layers(layer_matrices) -
                s.weighty_modules() * prediction_module_matrices(s);
  const StageShape& any = rank.held.front();
  return elements / (any.sharding.zero >= 1 ? any.sharding.state_shards : 1);
}

/// Reductions and gathers of the two kinds of parameters, each among the ranks that hold the same.
class CopiesCalls {
 public:
  CopiesCalls(const StageShape& shape, CallList& list) : s_(shape), list_(list) {}

  /// All-reduces are among all copies, gathers and scatters within an instance of the optimizer.
  void rest(CallKind kind, const char* label, std::int64_t elements, DType type) {
    list_.collective(kind, label, Group::data,
                     kind == CallKind::all_reduce ? s_.sharding.data : s_.sharding.state_shards, elements,
                     type);
  }
  void experts(CallKind kind, const char* label, std::int64_t elements, DType type) {
    among(kind, label, kind == CallKind::all_reduce ? s_.expert.copies : s_.expert.state_shards,
          s_.expert.tensor * s_.expert.ranks, elements, type);
  }
  /// The reduced pieces of both, summed over the instances.
  void between(const Trained& elements) {
    const int instances = s_.sharding.optimizer_instances;
    if (instances == 1) return;
    list_.calls.push_back(between_instances(s_, elements.rest, s_.numerics.grad_type));
    among(CallKind::all_reduce, "expert gradient all-reduce between instances", instances,
          s_.expert.tensor * s_.expert.ranks * s_.expert.state_shards,
          elements.experts / s_.expert.state_shards, s_.numerics.grad_type);
  }

 private:
  void among(CallKind kind, const char* label, int ranks, int stride, std::int64_t elements, DType type) {
    const std::size_t before = list_.calls.size();
    list_.collective(kind, label, Group::data, ranks, elements, type);
    if (list_.calls.size() > before) list_.last<CollectiveCall>().stride = stride;
  }

  const StageShape& s_;
  CallList& list_;
};

/// Passes over all gradients of the rank, and sums of single numbers over all ranks: of the gradient norm,
/// of the update's success and of the loss (Megatron-Core, clip_grads.py, and training.py).
void gradient_passes(const HeldStages& rank, const Trained& elements, CallList& list) {
  const StageShape& any = rank.held.front();
  const Software& sw = *any.software;
  const auto bytes = static_cast<double>(any.numerics.g());
  const bool sharded = any.sharding.zero >= 2;
  if (any.sharding.data > 1 && !sharded) {
    if (sw.memory.scaled_gradients) list.memory("scale gradients", elements.rest, 2 * bytes);
    if (sw.communication.buckets()) list.memory("scale gradients", elements.experts, 2 * bytes);
  }
  const std::int64_t all = elements.rest + elements.experts;
  if (sw.memory.clears_gradients)
    list.memory("clear gradients", sharded ? all / any.sharding.state_shards : all, bytes);
  const std::int64_t sums = sw.communication.buckets() ? 3 : std::llround(sw.step_end.reductions);
  if (sums == 0 || rank.layout.world() == 1) return;
  list.collective(CallKind::all_reduce, "statistics all-reduce", Group::data, rank.layout.world(), 1,
                  DType::fp32);
  list.last<CollectiveCall>().stride = 1;
  list.calls.back().count = sums;
}

/// The gathers of updated parameters (ZeRO 1 and 2).
void gathers(const HeldStages& rank, const Trained& elements, CallList& list) {
  const StageShape& any = rank.held.front();
  CopiesCalls copies(any, list);
  std::int64_t matrices = 0;  // of layers
  for (const StageShape& s : rank.held) matrices += quantized_matrices(s);
  // MXFP8 has two forms of a weight, which are made of gathered 16-bit ones
  // (reuse_grad_buf_for_mxfp8_param_ag, param_and_grad_buffer.py).
  const bool narrow =
      gathers_fp8(any) && any.numerics.fp8_recipe != Fp8Recipe::mxfp8 && !any.adapters.frozen();
  if (any.sharding.zero == 1 || any.sharding.zero == 2) {
    const std::int64_t in_fp8 = narrow ? matrices - elements.experts : 0;
    copies.rest(CallKind::all_gather, "parameter all-gather", elements.rest - in_fp8, any.numerics.type);
    copies.rest(CallKind::all_gather, "parameter all-gather", in_fp8, DType::fp8_e4m3);
  }
  if (any.expert.sharded) {
    copies.experts(CallKind::all_gather, "expert parameter all-gather", elements.experts,
                   narrow ? DType::fp8_e4m3 : any.numerics.type);
  }
}

}  // namespace

double least_reduced(const StageShape& s) {
  if (s.overlap.bucket_elements == 0) return 0;
  if (!s.place.first || s.overlap.interleaved) return std::numeric_limits<double>::infinity();
  constexpr double kPerRank = 1e6;  // for long enough pieces of a ring
  // Megatron-Bridge's CommOverlapConfig sets a size; recipes of gpt-oss have none (gpt_oss.py).
  if (s.software->communication.sized_buckets() && !is_gpt_oss(s)) return s.overlap.bucket_elements;
  return std::max(kDefaultBucketElements, kPerRank * s.sharding.data);
}

std::vector<OperatorCall> framework_reduction_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  CallList list(any);
  CopiesCalls copies(any, list);
  const Trained elements = trained_elements(rank);
  if (any.sharding.zero == 0)
    copies.rest(CallKind::all_reduce, "gradient all-reduce", elements.rest, any.numerics.grad_type);
  if (any.sharding.zero == 1) {
    const double whole = any.software->communication.all_reduced_bytes;
    if (whole == static_cast<double>(any.numerics.g()) && any.sharding.optimizer_instances == 1)
      copies.rest(CallKind::all_reduce, "gradient all-reduce", elements.rest, any.numerics.grad_type);
    else
      copies.rest(CallKind::reduce_scatter, "gradient reduce-scatter", elements.rest, any.numerics.grad_type);
  }
  copies.experts(any.expert.sharded ? CallKind::reduce_scatter : CallKind::all_reduce,
                 "expert gradient reduction", elements.experts, any.numerics.grad_type);
  if (any.sharding.zero == 1) copies.between(elements);
  list.collective(CallKind::all_reduce, "mirror all-reduce", Group::mirror, rank.mirror,
                  elements.rest / (any.sharding.zero >= 1 ? any.sharding.state_shards : 1) +
                      elements.experts / any.expert.state_shards,
                  any.numerics.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> framework_update_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  CallList list(any);
  CopiesCalls copies(any, list);
  const Trained elements = trained_elements(rank);
  const std::int64_t experts = elements.experts / any.expert.state_shards;
  const std::int64_t owned =
      experts + (any.sharding.zero >= 1 ? elements.rest / any.sharding.state_shards : elements.rest);
  // Megatron-Core divides by the loss scale and looks for infinities in a pass of its own, in fp32
  // (MixedPrecisionOptimizer._unscale_main_grads_and_check_for_nan, optimizer.py).
  if (any.numerics.type == DType::fp16 && any.software->communication.buckets())
    list.memory("unscale gradients", owned, 8);
  const std::int64_t on_host =
      std::llround(any.host_states.optimizer * static_cast<double>(owned));  // the host updates them
  const bool muon = any.numerics.optimizer.kind == Optimizer::muon;
  list.memory("optimizer step", muon ? others_of(rank) : owned - on_host,
              any.software->memory.optimizer_bytes - any.numerics.optimizer.update_bytes_less);
  if (muon) {
    const std::vector<OperatorCall> matrices = framework_muon_calls(rank.held);
    list.calls.insert(list.calls.end(), matrices.begin(), matrices.end());
  }
  if (on_host > 0) {
    const auto& host = any.host_states;
    const std::int64_t gradient = host.gradients > 0 ? 0 : any.numerics.g();
    const std::int64_t parameter = host.parameters ? 0 : any.numerics.e();
    list.calls.push_back({.work = HostUpdateCall{on_host, static_cast<double>(gradient + parameter)},
                          .label = "optimizer step on the host (a guess)"});
  }
  gradient_passes(rank, elements, list);
  std::int64_t layers = 0;
  std::int64_t matrices = 0;  // of layers
  for (const StageShape& s : rank.held) {
    layers += s.layers;
    matrices += quantized_matrices(s);
  }
  // The forms that products read, written once for all micro-batches: and a pass for their scale.
  // Frozen ones are never written again.
  if (any.numerics.framework_fp8 && !any.software->fp8.always && any.sharding.zero < 3 &&
      !any.adapters.frozen())
    list.memory(any.numerics.fp4 ? "cast weights to fp4" : "cast weights to fp8", matrices,
                (any.numerics.fp4 || any.numerics.fp8_recipe == Fp8Recipe::tensorwise ? 4 : 2) +
                    any.numerics.fp8_forms * any.numerics.operand_bytes);
  const std::size_t before = list.calls.size();
  gathers(rank, elements, list);
  if (any.overlap.param_gather && any.overlap.interleaved && !any.overlap.aligned_gathers) {
    list.calls.resize(before);            // every chunk's first forward waits for its own
  } else if (any.overlap.param_gather) {  // the first layer waits for its own
    for (std::size_t i = before; i < list.calls.size(); ++i)
      list.calls[i].share = 1.0 / static_cast<double>(std::max<std::int64_t>(layers, 1));
  }
  return std::move(list.calls);
}

UpdateLaunches update_launches(const HeldStages& rank) {
  const Software& sw = *rank.held.front().software;
  const int ranks = rank.layout.world();
  const Seconds gathered{ranks > 1 ? sw.step_end.gathered_numbers * 2 * ranks * sw.host.operator_s : 0};
  if (sw.step_end.update_operators == 0) return {{}, {}, gathered};
  double parameters = 1;  // besides layers, of the embedding or another end
  for (const StageShape& s : rank.held)
    parameters += static_cast<double>(s.layers) * sw.step_end.slice_parameters;
  const Seconds operator_s{parameters * sw.host.operator_s};
  return {operator_s * sw.step_end.update_operators, operator_s * 2, gathered};
}

std::vector<OperatorCall> framework_gather_calls(const HeldStages& rank) {
  CallList list(rank.held.front());
  gathers(rank, trained_elements(rank), list);
  return std::move(list.calls);
}

}  // namespace plumbline
