// Calls that FP8 linear layers add: for their operands, and at the end of a step (bench/training/fp8.md).
#include <utility>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kForwardSlots =
    2;  // of a linear layer: input and weight; and one of the gradient of its output

/// One kind of linear layers of a stage, MTP modules included: their number, and the elements of their
/// matrices.
struct LinearLayers {
  std::int64_t count;
  std::int64_t matrix;
  bool of_experts = false;
};

std::vector<LinearLayers> linear_layers(const StageShape& s) {
  const std::int64_t every = s.layers + s.own_modules();
  const std::int64_t dense = s.dense_layers() + (s.mixture() ? 0 : s.own_modules());
  const std::int64_t mixtures = every - dense;
  const StageShape plain = s.like({.dense = s.mixture()});
  std::vector<LinearLayers> all = {
      {every, (s.attention.latent() ? s.attention.compressed() : s.attention.qkv()) * s.stream.hidden},
      {s.attention.latent() ? every : 0, s.attention.q * s.query_width()},
      {s.attention.latent() ? every : 0,
       (s.attention.own_keys() + s.attention.attended()) * s.attention.kv_rank},
      {every, s.stream.hidden * s.attention.attended()},
      {dense, plain.mlp.fc1 * s.stream.hidden},
      {dense, s.stream.hidden * plain.mlp.ffn}};
  if (mixtures == 0) return all;
  all.push_back({mixtures * s.local_experts(), s.mlp.fc1 * s.stream.hidden, true});
  all.push_back({mixtures * s.local_experts(), s.stream.hidden * s.mlp.ffn, true});
  if (s.moe.shared == 0) return all;
  all.push_back({mixtures, 2 * s.moe.shared * s.stream.hidden});
  all.push_back({mixtures, s.stream.hidden * s.moe.shared});
  return all;
}

std::int64_t count_of(const StageShape& s, bool of_experts) {
  std::int64_t count = 0;
  for (const LinearLayers& layers : linear_layers(s)) {
    if (layers.of_experts == of_experts) count += layers.count;
  }
  return count;
}

/// Scale calls of the layers for all tokens, or of experts; the ranks of `group` hold the same spread
/// experts.
void scale_calls(const HeldStages& rank, bool of_experts, CallList& list) {
  const StageShape& any = rank.held.front();
  std::int64_t linears = 0;
  for (const StageShape& s : rank.held) linears += count_of(s, of_experts);
  const auto all_reduce = [&](Group group, int ranks, std::int64_t slots) {
    list.collective(CallKind::all_reduce, "fp8 largest values all-reduce", group, ranks, slots, DType::fp32);
  };
  const std::int64_t slots = (kForwardSlots + 1) * linears;
  all_reduce(Group::tensor, any.sharding.tensor, slots);
  if (of_experts && any.exchanges_rows()) {
    all_reduce(Group::expert_data, any.expert.copies, slots);
    if (any.has_instances()) all_reduce(Group::between_instances, any.sharding.optimizer_instances, slots);
  } else {
    all_reduce(Group::data, any.sharding.data, slots);
  }
  for (const StageShape& s : rank.held) {
    all_reduce(Group::mirror, rank.mirror, kForwardSlots * count_of(s, of_experts));
    all_reduce(Group::mirror, rank.mirror, count_of(s, of_experts));
  }
  list.memory("copy", slots, 8, DType::fp32);  // the newest entry
  const double read_and_written = 4 + 8 / static_cast<double>(any.numerics.fp8_history);
  for (const std::int64_t of_linear : {kForwardSlots, std::int64_t{1}})
    list.memory("fp8_scales", any.numerics.fp8_history * of_linear * linears, read_and_written, DType::fp32);
  list.memory("fill", slots, 4, DType::fp32);
}

}  // namespace

std::vector<OperatorCall> fp8_weight_calls(const StageShape& s, bool of_gathered) {
  if (!s.numerics.fp8 || s.sharding.zero >= 3) return {};
  CallList list(s);
  for (const LinearLayers& layers : linear_layers(s)) {
    const int pieces = layers.of_experts && s.exchanges_rows() ? s.expert.copies : s.pieces();
    if (layers.count == 0 || (s.gathers_in_first_forward() && pieces > 1) != of_gathered) continue;
    const std::size_t first = list.calls.size();
    list.quantize_weight(layers.matrix, CallList::Ways::both);
    for (std::size_t i = first; i < list.calls.size(); ++i) list.calls[i].count = layers.count;
  }
  return std::move(list.calls);
}

std::vector<OperatorCall> fp8_scale_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  if (!any.numerics.fp8 || any.numerics.fp8_tensorwise) return {};
  CallList list(any);
  scale_calls(rank, false, list);
  scale_calls(rank, true, list);
  return std::move(list.calls);
}

void CallList::quantize_rows(std::int64_t width) {
  if (!s_.numerics.fp8) return;
  begin_scales(s_.local_experts());
  each_expert([&](std::int64_t rows) { quantize_whole_or_split(rows * width, false); });
  allocations(s_.numerics.fp8_tensorwise ? 2 : 1);
}

void CallList::prepare_operands(GemmPass pass, std::int64_t out, std::int64_t in) {
  if (pass == GemmPass::weight_gradient) {
    transpose(s_.stream.tokens * out);
    transpose(s_.stream.tokens * in);
    return allocations(2);
  }
  if (s_.sharding.zero < 3) return;
  quantize_weight(out * in, pass == GemmPass::input_gradient ? Ways::transposed : Ways::plain);
  allocations(1);
}

void CallList::quantize_operand(std::int64_t elements, bool split_by_rows) {
  if (!s_.numerics.fp8) return;
  begin_scales(1);
  quantize_whole_or_split(elements, split_by_rows);
  allocations(s_.numerics.fp8_tensorwise ? 2 : 1);
}

void CallList::quantize_whole_or_split(std::int64_t elements, bool split_by_rows, Ways ways) {
  const auto e = static_cast<double>(s_.numerics.e());
  if (s_.numerics.fp8_tensorwise) {
    memory("fill", 1, 4, DType::fp32);
    memory("fp8_amax", elements, e);
    if (split_by_rows) tensor_all_reduce("fp8 scale all-reduce", 1, DType::fp32);
    memory("fp8_scales", 2, 6, DType::fp32);
  }
  if (ways == Ways::plain) return memory("fp8_quantize", elements, e + 1);
  memory("fp8_quantize_transpose", elements, ways == Ways::both ? e + 2 : e + 1);
}

}  // namespace plumbline
