#include "bench/training/input_end.hpp"

#include "bench/training/views.hpp"

namespace plumbline::training {

InputEnd::InputEnd(RankResources& rank, const StageEntry& stage)
    : rank_(rank),
      embedding_(stage.parameters.find("embedding.weight")),
      units_{stage.unit_of(embedding_)},
      tensor_rank_(stage.part.tensor_rank),
      first_token_(tensor_rank_ * rank.context.shape.vocab) {
  if (rank.context.model().positions == Positions::learned) {
    positions_ = &stage.parameters.find("positions.weight");
    units_.push_back(stage.unit_of(*positions_));
  }
}

void InputEnd::forward(const Matrix& tokens, const Matrix& x) const {
  const TrainingContext& context = rank_.context;
  const StageShape& shape = context.shape;
  Tensor full;
  if (context.sequence_parallel) {
    full = context.make(Category::workspace, "embedded sequence", shape.tokens, shape.hidden);
  }
  const Matrix all = full ? full.matrix() : x;
  context.operators.embedding_forward(tokens, view_of(embedding_, rank_.values.begin()), first_token_, all);
  rank_.values.end();
  if (!full) context.reduce_over_tensor_ranks(all, ReduceOp::sum);
  if (positions_ != nullptr) {
    const Matrix table = view_of(*positions_, rank_.values.begin());
    // Before a sum over the ranks they count once.
    if (!full || tensor_rank_ == 0) context.operators.position_forward(all, table, context.config.seq_length);
    rank_.values.end();
  }
  if (full) context.scatter_over_tensor_ranks(all, x);
}

void InputEnd::backward(const Matrix& tokens, const Matrix& gradient) const {
  const TrainingContext& context = rank_.context;
  const AllRows all = context.gather_rows(gradient);
  context.operators.embedding_backward(tokens, all, first_token_,
                                       view_of(embedding_, rank_.gradients.open(units_[0])));
  rank_.gradients.done(units_[0]);
  if (positions_ == nullptr) return;
  context.operators.position_backward(all, view_of(*positions_, rank_.gradients.open(units_[1])),
                                      context.config.seq_length);
  rank_.gradients.done(units_[1]);
}

}  // namespace plumbline::training
