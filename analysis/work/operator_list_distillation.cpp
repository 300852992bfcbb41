// The loss between teacher and student (bench/training/distillation.md).
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

void fused_loss(const StageShape& s, CallList& list) {
  const std::int64_t logits = s.stream.tokens * s.ends.outputs;
  const auto e = static_cast<double>(s.numerics.e());
  const double cached = s.distillation.hidden ? e : static_cast<double>(s.distillation.cached_size);
  list.memory("cross_entropy_max", logits, e);
  list.memory("cross_entropy_max", logits, cached);
  list.tensor_all_reduce("loss all-reduce", 2 * s.stream.tokens, DType::fp32);
  list.memory("distillation_sums", logits, e + cached);
  list.tensor_all_reduce("loss all-reduce", 4 * s.stream.tokens, DType::fp32);
  list.memory("distillation_divergence", logits, e + cached);
  list.tensor_all_reduce("loss all-reduce", s.stream.tokens, DType::fp32);
  list.memory("distillation_gradient", logits, 2 * e + cached);
  list.allocations(1);
}

/// Separate fp32 tensors, each read and written as eager code does.
void unfused_loss(const StageShape& s, CallList& list) {
  const std::int64_t logits = s.stream.tokens * s.ends.outputs;
  const auto e = static_cast<double>(s.numerics.e());
  const auto pass = [&](const char* name, double traffic) {
    list.memory(name, logits, traffic, DType::fp32);
  };
  for (int model = 0; model < 2; ++model) {  // both in fp32, then divided by the temperature
    pass("copy", e + 4);
    pass("scale", 8);
  }
  for (int model = 0; model < 2; ++model) pass("softmax", 12);  // log-softmax of one, softmax of the other
  pass("divergence_terms", 16);
  pass("copy", 8);  // the gradient of the log-softmax
  pass("log_softmax_backward", 12);
  if (s.distillation.language_model) {
    pass("scale", 8);
    pass("cross_entropy_max", 4);
    pass("cross_entropy_sums", 4);
    pass("cross_entropy_gradient", 8);
    pass("add", 12);
    list.allocations(1);
  }
  list.memory("copy", logits, 4 + e);
  list.allocations(9);
}

}  // namespace

void distillation_loss(const StageShape& s, CallList& list) {
  if (s.distillation.hidden) {
    if (s.sharding.sequence_parallel) {
      list.collective(CallKind::all_gather, "sequence all-gather forward", Group::tensor, s.sharding.tensor,
                      s.stream.tokens * s.distillation.teacher_hidden, s.numerics.type);
      list.allocations(1);
    }
    list.gemm("teacher output layer", GemmPass::forward, s.ends.outputs, s.distillation.teacher_hidden);
    if (s.distillation.teacher_normed) {
      const double both = 2 * static_cast<double>(s.numerics.e());
      list.memory("row_products", s.ends.outputs * s.distillation.teacher_hidden, both);
      list.memory("scale_columns", s.stream.tokens * s.ends.outputs, both);
    }
    list.allocations(1);
  }
  if (s.distillation.unfused) {
    unfused_loss(s, list);
  } else {
    fused_loss(s, list);
  }
}

}  // namespace plumbline
