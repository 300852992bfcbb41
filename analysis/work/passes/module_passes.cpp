#include "analysis/work/passes/module_passes.hpp"

#include "analysis/work/parameter_units.hpp"
#include "analysis/work/passes/end_passes.hpp"
#include "analysis/work/passes/layer_part.hpp"

namespace plumbline::passes {
namespace {

/// Embedding lookups of MTP modules (bench/training/mtp.md).
void modules_embedding(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.stream.tokens * s.stream.hidden;
  builder.once({true, false, s.ends.shared_lookup}, padded_vocabulary_unit(s), [&](CallList& list) {
    for (std::int64_t i = 0; i < s.own_modules(); ++i) {
      list.memory("embedding_forward", full, 2 * e(s));
      if (s.sharding.sequence_parallel) scatter_embedded(s, list);
      if (!s.sharding.sequence_parallel)
        list.tensor_all_reduce("embedding all-reduce", full, s.numerics.type);
      list.drop_embedded();
      list.allocations(s.sharding.sequence_parallel ? 2 : 1);
    }
  });
}

/// Columns of the layer's input, each made by one tensor rank, with zeros elsewhere: their sum is the whole.
void join_forward(const StageShape& s, CallList& list) {
  norm_forward(s, list);
  norm_forward(s, list);
  list.gathered_wide("sequence all-gather forward", 2 * s.stream.hidden);
  if (s.sharding.tensor > 1) {
    list.memory("fill", s.stream.tokens * s.stream.hidden,
                static_cast<double>(size_of(s.numerics.sum_type())), s.numerics.sum_type());
  }
  list.gemm("module input", GemmPass::forward, s.stream.hidden / s.sharding.tensor, 2 * s.stream.hidden);
  list.sum_over_tensor_ranks("tensor all-reduce forward", "sequence reduce-scatter forward");
  list.allocations(3);
}

void join_backward(const StageShape& s, CallList& list, Passes passes) {
  constexpr const char* kGather = "sequence all-gather backward";
  list.gathered(kGather);
  if (passes.input) {
    list.gemm("module input", GemmPass::input_gradient, s.stream.hidden / s.sharding.tensor,
              2 * s.stream.hidden);
    list.sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward",
                               2 * s.stream.hidden);
    list.allocations(1);
  }
  if (!passes.weight) return;
  list.gathered_wide(kGather, 2 * s.stream.hidden);
  list.gemm("module input", GemmPass::weight_gradient, s.stream.hidden / s.sharding.tensor,
            2 * s.stream.hidden);
}

}  // namespace

void modules_forward(const StageShape& s, WorkBuilder& builder, bool first) {
  if (s.own_modules() == 0) return;
  final_norm_forward(s, builder);
  modules_embedding(s, builder);
  for (std::int64_t module = 0; module < s.own_modules(); ++module) {
    const StageShape like = s.like(s.kind_of(s.layers + module));
    builder.run(layer_part(builder, like, {true, false}, padded_module_unit(like),
                           [&](CallList& list) {
                             if (first) quantize_gathered(like, list);
                             join_forward(like, list);
                             layer_forward(like, list, 0, Forward::first);
                             norm_forward(like, list);
                             list.allocations(1 + s.block.norm_rows);
                           }),
                1);
  }
}

void modules_backward(const StageShape& s, WorkBuilder& builder, Passes passes) {
  for (std::int64_t module = s.own_modules(); module-- > 0;) {
    const StageShape like = s.like(s.kind_of(s.layers + module));
    builder.run(layer_part(builder, like, {passes.input, passes.weight}, padded_module_unit(like),
                           [&](CallList& list) {
                             if (passes.input) norm_backward(like, list);
                             if (passes.input && s.recomputation.granularity == Recompute::full)
                               layer_forward(like, list, 0, Forward::again_to_activation);
                             layer_backward(like, list, 0, passes);
                             join_backward(like, list, passes);
                           }),
                1);
    if (!passes.input) continue;
    builder.once({}, 0, [&](CallList& list) {
      norm_backward(s, list);
      norm_backward(s, list);
      list.dropout_backward(true);
      list.allocations(2);
    });
    embedding_backward(s, builder);
  }
}

}  // namespace plumbline::passes
