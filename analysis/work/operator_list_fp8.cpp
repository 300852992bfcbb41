// What linear layers in FP8 add to the end of a step (bench/training/fp8.md).
#include <utility>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kForwardSlots = 8;   // of a layer: input and weight of its four products
constexpr std::int64_t kGradientSlots = 4;  // of a layer: gradients of their outputs

}  // namespace

std::vector<OperatorCall> fp8_weight_calls(const StageShape& s) {
  if (!s.fp8 || s.zero >= 3) return {};
  CallList list(s);
  for (const std::int64_t matrix :
       {(s.q + 2 * s.k) * s.hidden, s.hidden * s.q, s.fc1 * s.hidden, s.hidden * s.ffn}) {
    list.quantize_weight(matrix);
    list.transpose(matrix);
  }
  for (OperatorCall& call : list.calls) call.count = s.layers;
  if (s.layers == 0) list.calls.clear();
  return std::move(list.calls);
}

std::vector<OperatorCall> fp8_scale_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  if (!any.fp8 || any.fp8_tensorwise) return {};
  CallList list(any);
  std::int64_t layers = 0;
  for (const StageShape& s : rank.held) layers += s.layers;
  const auto all_reduce = [&](Group group, int ranks, std::int64_t slots) {
    list.collective(CallKind::all_reduce, "fp8 largest values all-reduce", group, ranks, slots, DType::fp32);
  };
  const std::int64_t slots = (kForwardSlots + kGradientSlots) * layers;
  all_reduce(Group::tensor, any.tensor, slots);
  all_reduce(Group::data, any.data, slots);
  for (const StageShape& s : rank.held) {
    all_reduce(Group::mirror, rank.mirror, kForwardSlots * s.layers);
    all_reduce(Group::mirror, rank.mirror, kGradientSlots * s.layers);
  }
  list.memory("copy", slots, 8, DType::fp32);  // the newest entry
  const double read_and_written = 4 + 8 / static_cast<double>(any.fp8_history);
  for (const std::int64_t of_layer : {kForwardSlots, kGradientSlots}) {
    list.memory("fp8_scales", any.fp8_history * of_layer * layers, read_and_written, DType::fp32);
  }
  list.memory("fill", slots, 4, DType::fp32);
  return std::move(list.calls);
}

}  // namespace plumbline
