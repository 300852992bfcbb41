#include "bench/training/ends/embedding_shard.hpp"

#include <utility>

#include "bench/training/parameters/views.hpp"

namespace plumbline::training {

EmbeddingShard::EmbeddingShard(RankResources& rank, ExposedWaits& waits)
    : rank_(rank),
      waits_(waits),
      table_(rank.parameters.stages.front().parameters.find("embedding.weight")),
      unit_(rank.parameters.stages.front().unit_of(table_)),
      uses_{unit_},
      first_(rank.parameters.stages.front().part.first()),
      root_(rank.rank_of_stage(0)),
      first_token_(rank.parameters.stages.front().part.shard * rank.context.shape.vocab),
      microbatches_(static_cast<std::size_t>(rank.placement.microbatches)) {
  rank.gradients.expect(unit_, rank.placement.microbatches);
  if (first_) return;
  held_embedded_ = rank.context.make_all_rows(Category::communication, "embedded tokens");
  held_gradient_ = rank.context.make_all_rows(Category::communication, "gradient of embedded tokens");
}

void EmbeddingShard::forward(std::uint32_t microbatch, const Matrix& x) {
  const TrainingContext& context = rank_.context;
  rank_.values.begin_action(uses_);
  if (!first_) {
    if (microbatch == 0) join_gradient(0);
    if (microbatch > 0) waits_.wait(VocabularyCall::embedding, microbatch - 1, at(microbatch - 1).embedded);
  }
  const Matrix embedded = first_ ? x : held_embedded_.matrix();
  context.operators.embedding_forward(rank_.input_tokens(microbatch), view_of(table_, rank_.values.begin()),
                                      first_token_, embedded);
  rank_.values.end();
  at(microbatch).embedded =
      context.communicator.start_all_reduce(Group::embedding_output, embedded, ReduceOp::sum);
  waits_.started(VocabularyCall::embedding, microbatch, at(microbatch).embedded);
}

void EmbeddingShard::finish_forward(std::uint32_t microbatch) {
  waits_.wait(VocabularyCall::embedding, microbatch, at(microbatch).embedded);
}

void EmbeddingShard::broadcast_gradient(std::uint32_t microbatch, const Matrix& gradient) {
  at(microbatch).gradient_ready =
      rank_.context.communicator.start_broadcast(Group::embedding_gradient, root_, gradient);
  waits_.started(VocabularyCall::embedding_gradient, microbatch, at(microbatch).gradient_ready);
}

void EmbeddingShard::start_backward(std::uint32_t microbatch, Tensor gradient) {
  at(microbatch).gradient = std::move(gradient);
  broadcast_gradient(microbatch, at(microbatch).gradient);
}

void EmbeddingShard::join_gradient(std::uint32_t microbatch) {
  broadcast_gradient(microbatch, held_gradient_);
}

void EmbeddingShard::backward(std::uint32_t microbatch) {
  Microbatch& here = at(microbatch);
  waits_.wait(VocabularyCall::embedding_gradient, microbatch, here.gradient_ready);
  rank_.context.operators.embedding_backward(rank_.input_tokens(microbatch),
                                             first_ ? here.gradient.matrix() : held_gradient_.matrix(),
                                             first_token_, view_of(table_, rank_.gradients.open(unit_)));
  rank_.gradients.done(unit_);
  here.gradient.reset();
  if (!first_ && microbatch + 1 < microbatches_.size()) join_gradient(microbatch + 1);
  rank_.gradients.end_action();
}

void EmbeddingShard::finish_step() {
  for (std::uint32_t m = 0; m < microbatches_.size(); ++m)
    waits_.wait(VocabularyCall::embedding, m, at(m).embedded);
}

}  // namespace plumbline::training
