#include "bench/training/ends/output_end.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/ends/fp32_logits.hpp"
#include "bench/training/ends/policy_loss.hpp"
#include "bench/training/layer/norm.hpp"
#include "bench/training/parameters/views.hpp"
#include "core/config/common_vocabulary.hpp"

namespace plumbline::training {
namespace {

/// The stage whose embedding or output.weight is the output layer of `stage`.
const StageEntry& holder_of(const RankResources& rank, const StageEntry& stage) {
  if (!stage.part.shares_embedding) return stage;
  return *std::find_if(rank.parameters.stages.begin(), rank.parameters.stages.end(),
                       [](const StageEntry& other) { return other.part.first(); });
}

const Parameter& output_weight(const StageEntry& stage, const StageEntry& holder) {
  return holder.parameters.find(stage.part.shares_embedding ? "embedding.weight" : "output.weight");
}

VocabularyColumns columns_of(const TrainingContext& context, const StagePart& part) {
  const std::int64_t width = context.outputs();
  const std::int64_t first = part.tensor_rank * width;
  const std::int64_t all = std::min(common_vocab(context.config), context.model().outputs());
  return {first, std::clamp<std::int64_t>(all - first, 0, width)};
}

}  // namespace

OutputEnd::OutputEnd(RankResources& rank, const StageEntry& stage, VocabularyShard* shard)
    : rank_(rank), shard_(shard), columns_(columns_of(rank.context, stage.part)) {
  if (shard == nullptr) {
    const StageEntry& holder = holder_of(rank, stage);
    weight_ = &output_weight(stage, holder);
    units_ = {holder.unit_of(*weight_)};
  }
  const auto vector = [&](const char* role, const ParameterSet& set) {
    return vector_of(stage, stage.parameters.find(role), set);
  };
  norm_weight_ = vector("final_norm.weight", rank.memory.values);
  norm_weight_gradient_ = vector("final_norm.weight", rank.memory.gradients);
  if (rank.context.model().norms.kind == Norm::layer) {
    norm_bias_ = vector("final_norm.bias", rank.memory.values);
    norm_bias_gradient_ = vector("final_norm.bias", rank.memory.gradients);
  }
  if (rank.context.model().biases.output) {
    bias_ = vector("output.bias", rank.memory.values);
    bias_gradient_ = vector("output.bias", rank.memory.gradients);
  }
  if (rank.context.model().norms.output_rows) {
    row_sums_ = rank.context.make_fp32(Category::workspace, "row sums of the output layer", 2,
                                       rank.context.outputs());
  }
}

void OutputEnd::start_hidden(std::uint32_t microbatch, Tensor norm) const {
  AllRows all = rank_.context.gather_rows(norm, rank_.context.kept);
  if (all.held) {
    norm.reset();
  } else {
    all.held = std::move(norm);
  }
  shard_->start_hidden(microbatch, std::move(all.held));
}

void OutputEnd::normalise(NormedOutput& saved) const {
  const TrainingContext& context = rank_.context;
  const LayerWidths& shape = context.shape;
  saved.norm = context.make_stream(context.kept, "final norm");
  saved.stats = context.make_fp32(context.kept, "final norm statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.input, norm_weight_, norm_bias_, saved.norm, saved.stats);
  if (multiplier() != 1) context.operators.scale(saved.norm, multiplier());
}

Tensor OutputEnd::project(const Matrix& norm, Category category, DType type) const {
  const TrainingContext& context = rank_.context;
  const AllRows rows = context.gather_rows(norm);
  Tensor logits = context.arena.allocate(category, "logits", context.shape.tokens, context.outputs(), type);
  const Matrix weight = view_of(*weight_, rank_.values.begin());
  context.operators.gemm({.a = rows, .b = weight, .c = logits, .b_transposed = true, .bias = bias_});
  if (row_sums_) {
    const Matrix row = weight.reshaped(1, weight.elements());
    context.operators.row_products(row, row, 0, weight.cols, row_sums_);
    divide_by_row_lengths(logits);
  }
  rank_.values.end();
  return logits;
}

/// The logits are those of the rows divided by their lengths, and so are their gradients; everything behind
/// follows with the rows as they are.
void OutputEnd::divide_by_row_lengths(const Matrix& logits) const {
  rank_.context.operators.scale_columns(logits, row_sums_.matrix().row_range(1, 1));
}

void OutputEnd::finish_gradients() const {
  if (!row_sums_) return;
  const TrainingContext& context = rank_.context;
  const ParameterMemory& memory = rank_.memory;
  const int unit = units_.front();
  const Matrix gradient = memory.owned(memory.gradients, unit);
  const Matrix weight = memory.owned(memory.values, unit);
  const std::int64_t first = memory.owned_from(unit);
  context.operators.row_products(gradient, weight, first, weight_->cols, row_sums_);
  if (context.config.parallel.effective_zero_stage() > 0)
    context.communicator.all_reduce(memory.unit(unit).group, row_sums_, ReduceOp::sum);
  context.operators.remove_row_parts(gradient, weight, first, weight_->cols, row_sums_);
}

Number cross_entropy(const RankResources& rank, const VocabularyColumns& columns, const Matrix& targets,
                     const Matrix& logits, double scale) {
  const TrainingContext& context = rank.context;
  Operators& ops = context.operators;
  const Tensor statistics =
      context.make_fp32(Category::workspace, "loss statistics", 3, context.shape.tokens);
  const Matrix row_max = statistics.matrix().row_range(0, 1);
  const Matrix sums = statistics.matrix().row_range(1, 2);
  ops.cross_entropy_max(logits, columns.valid, row_max);
  context.reduce_over_tensor_ranks(row_max, ReduceOp::max);
  ops.cross_entropy_sums(logits, columns.valid, columns.first, targets, row_max, sums);
  context.reduce_over_tensor_ranks(sums, ReduceOp::sum);
  return ops.cross_entropy_gradient(logits, columns.valid, columns.first, targets, row_max, sums, scale);
}

Number OutputEnd::loss(const Matrix& targets, double scale, Tensor& logits) const {
  if (!rank_.context.config.numerics.loss_in_fp32()) {
    return cross_entropy(rank_, columns_, targets, logits, scale);
  }
  // The 16-bit logits live until the loss is there, as in eager code.
  Tensor wide = fp32_copy(rank_.context, logits);
  Number sum = cross_entropy(rank_, columns_, targets, wide, scale);
  logits = std::move(wide);
  return sum;
}

Number OutputEnd::policy_loss(const Matrix& targets, const Matrix& tokens, double scale,
                              Tensor& logits) const {
  const auto& of = rank_.context.model().embedding.scalar_head ? value_loss : training::policy_loss;
  if (!rank_.context.config.numerics.loss_in_fp32())
    return of(rank_.context, columns_, targets, tokens, logits, scale);
  Tensor wide = fp32_copy(rank_.context, logits);
  Number sum = of(rank_.context, columns_, targets, tokens, wide, scale);
  logits = std::move(wide);
  return sum;
}

Tensor OutputEnd::norm_gradient(Tensor& logits) const {
  const TrainingContext& context = rank_.context;
  if (context.config.numerics.loss_in_fp32()) round_logits_gradient(context, logits);
  if (row_sums_) divide_by_row_lengths(logits);
  Tensor gradient = context.make_stream(Category::workspace, "gradient of final norm");
  context.gemm_over_tensor_ranks({.a = logits, .b = view_of(*weight_, rank_.values.begin()), .c = gradient});
  rank_.values.end();
  return gradient;
}

void OutputEnd::weight_gradient(const Matrix& logits, const Matrix& norm) const {
  const TrainingContext& context = rank_.context;
  const Matrix dweight = view_of(*weight_, rank_.gradients.open(units_.front()));
  const AllRows rows = context.gather_rows(norm);
  context.operators.gemm({.a = logits, .b = rows, .c = dweight, .a_transposed = true, .accumulate = true});
  if (bias_.data != nullptr) context.operators.bias_backward(logits, bias_gradient_);
}

}  // namespace plumbline::training
