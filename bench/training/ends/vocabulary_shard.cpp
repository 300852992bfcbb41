#include "bench/training/ends/vocabulary_shard.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/ends/fp32_logits.hpp"
#include "bench/training/parameters/views.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kRowsPerShard = 3;  // maximum, sum, target's logit

const Parameter& output_weight(const StageEntry& stage) {
  return stage.parameters.find(stage.part.shares_embedding ? "embedding.weight" : "output.weight");
}

std::int64_t real_columns(const TrainingContext& context, std::int64_t first_token) {
  return std::clamp<std::int64_t>(context.model().vocab - first_token, 0, context.shape.vocab);
}

}  // namespace

VocabularyShard::VocabularyShard(RankResources& rank, ExposedWaits& waits)
    : rank_(rank),
      waits_(waits),
      stage_(rank.parameters.stages.front()),
      weight_(output_weight(stage_)),
      unit_(stage_.unit_of(weight_)),
      uses_{unit_},
      one_barrier_(rank.context.config.parallel.pp.vocab_parallel == VocabPasses::one_barrier),
      loss_in_fp32_(rank.context.config.numerics.loss_in_fp32()),
      last_(rank.placement.same_rank(rank.placement.stages() - 1, stage_.part.stage)),
      root_(rank.rank_of_stage(rank.placement.stages() - 1)),
      shards_(rank.context.config.parallel.vocab_shards()),
      first_token_(stage_.part.shard * rank.context.shape.vocab),
      valid_(real_columns(rank.context, first_token_)),
      microbatches_(static_cast<std::size_t>(rank.placement.microbatches)) {
  rank.gradients.expect(unit_, rank.placement.microbatches);
  if (one_barrier_ || last_) return;
  const LayerWidths& shape = rank.context.shape;
  for (Tensor& held : held_gradients_) {
    held = rank.context.make_fp32(Category::communication, "gradient of hidden states", shape.tokens,
                                  shape.hidden);
  }
}

void VocabularyShard::start_hidden(std::uint32_t microbatch, Tensor norm) {
  Microbatch& here = at(microbatch);
  here.hidden = std::move(norm);
  here.hidden_ready = rank_.context.communicator.start_broadcast(Group::vocab_hidden, root_, here.hidden);
  waits_.started(VocabularyCall::hidden, microbatch, here.hidden_ready);
}

void VocabularyShard::join_hidden(std::uint32_t microbatch) {
  if (last_) return;
  start_hidden(microbatch, rank_.context.make_all_rows(Category::activations, "hidden states"));
}

Matrix VocabularyShard::own_statistics(const Matrix& statistics, std::int64_t row, std::int64_t rows) const {
  return statistics.row_range(stage_.part.shard * kRowsPerShard + row, rows);
}

Matrix VocabularyShard::alpha(const Matrix& statistics) const {
  return statistics.row_range(shards_ * kRowsPerShard, 1);
}

void VocabularyShard::forward(std::uint32_t microbatch) {
  const TrainingContext& context = rank_.context;
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  Microbatch& here = at(microbatch);
  rank_.values.begin_action(uses_);
  if (!last_) waits_.wait(VocabularyCall::hidden, microbatch, here.hidden_ready);
  here.logits = context.make(Category::logits, "logits", shape.tokens, shape.vocab);
  Matrix table = view_of(weight_, rank_.values.begin());
  ops.gemm({.a = here.hidden, .b = table, .c = here.logits, .b_transposed = true});
  context.communicator.progress();  // these products take longer than a layer if the vocabulary is large
  if (!one_barrier_) rank_.values.end();
  if (loss_in_fp32_) here.logits = fp32_copy(context, here.logits);

  here.statistics = context.make_fp32(Category::workspace, "vocabulary statistics",
                                      kRowsPerShard * shards_ + 1, shape.tokens);
  const Matrix row_max = own_statistics(here.statistics, 0, 1);
  const Matrix targets = rank_.target_tokens(microbatch);
  ops.cross_entropy_max(here.logits, valid_, row_max);
  ops.cross_entropy_sums(here.logits, valid_, first_token_, targets, row_max,
                         own_statistics(here.statistics, 1, 2));
  ops.vocab_softmax(here.logits, valid_, row_max, own_statistics(here.statistics, 1, 1));
  context.communicator.progress();

  if (one_barrier_) {
    here.hidden_gradient =
        context.make_fp32(Category::workspace, "gradient of hidden states", shape.tokens, shape.hidden);
    hidden_gradient_product(here, table);
    if (rank_.memory.values.sharded) {
      here.target_rows = context.make(Category::workspace, "target rows", shape.tokens, shape.hidden);
      ops.embedding_forward(targets, table, first_token_, here.target_rows);
      table = here.target_rows;
    }
    rank_.values.end();
  }
  start_statistics(microbatch, table);
  if (microbatch + 1 < microbatches_.size()) join_hidden(microbatch + 1);
}

/// One barrier: dX from the shard's own softmax.
void VocabularyShard::hidden_gradient_product(const Microbatch& here, const Matrix& table) {
  Tensor rounded;
  if (loss_in_fp32_) {
    rounded = rounded_logits(rank_.context, Category::workspace, "rounded softmax", here.logits);
  }
  rank_.context.operators.gemm(
      {.a = loss_in_fp32_ ? rounded : here.logits, .b = table, .c = here.hidden_gradient});
}

/// C1, and with one barrier the collectives that follow it.
void VocabularyShard::start_statistics(std::uint32_t microbatch, const Matrix& table) {
  Communicator& communicator = rank_.context.communicator;
  Microbatch& here = at(microbatch);
  const Matrix& statistics = here.statistics;
  Ticket gathered =
      communicator.start_all_gather(Group::vocab_statistics, own_statistics(statistics, 0, kRowsPerShard),
                                    statistics.row_range(0, shards_ * kRowsPerShard));
  waits_.started(VocabularyCall::statistics, microbatch, gathered);
  if (!one_barrier_) {
    here.statistics_ready = gathered;
    return;
  }
  const auto correct = [this, microbatch, table] {
    combine(microbatch);
    const Microbatch& then = at(microbatch);
    rank_.context.operators.vocab_input_gradient(
        then.hidden_gradient, table, rank_.memory.values.sharded ? kRowPerToken : first_token_,
        rank_.target_tokens(microbatch), alpha(then.statistics), rank_.scaled_per_token());
  };
  here.gradient_ready = communicator.start_all_reduce_after(gathered, correct, Group::vocab_gradient,
                                                            here.hidden_gradient, ReduceOp::sum);
  waits_.started(VocabularyCall::hidden_gradient, microbatch, here.gradient_ready);
}

void VocabularyShard::combine(std::uint32_t microbatch) {
  const Matrix& statistics = at(microbatch).statistics;
  Number loss = rank_.context.operators.vocab_combine(
      statistics.row_range(0, shards_ * kRowsPerShard), rank_.target_tokens(microbatch),
      rank_.context.shape.vocab, stage_.part.shard, alpha(statistics));
  if (last_) losses_.add(std::move(loss));
}

Matrix VocabularyShard::gradient_place(std::uint32_t microbatch) {
  const LayerWidths& shape = rank_.context.shape;
  if (last_) {
    Tensor& own = at(microbatch).hidden_gradient;
    own =
        rank_.context.make_fp32(Category::workspace, "gradient of hidden states", shape.tokens, shape.hidden);
    return own;
  }
  if (microbatch >= 2)
    waits_.wait(VocabularyCall::hidden_gradient, microbatch - 2, at(microbatch - 2).gradient_ready);
  return held_gradients_[microbatch % 2];
}

void VocabularyShard::backward(std::uint32_t microbatch) {
  const TrainingContext& context = rank_.context;
  Operators& ops = context.operators;
  Microbatch& here = at(microbatch);
  if (one_barrier_) {
    waits_.wait(VocabularyCall::hidden_gradient, microbatch, here.gradient_ready);
    here.target_rows.reset();
    if (!last_) here.hidden_gradient.reset();
  } else {
    rank_.values.begin_action(uses_);
    waits_.wait(VocabularyCall::statistics, microbatch, here.statistics_ready);
    combine(microbatch);
  }
  ops.vocab_gradient(here.logits, valid_, first_token_, rank_.target_tokens(microbatch),
                     alpha(here.statistics), rank_.scaled_per_token());
  if (loss_in_fp32_) round_logits_gradient(context, here.logits);
  context.communicator.progress();
  if (!one_barrier_) {
    const Matrix gradient = gradient_place(microbatch);
    ops.gemm({.a = here.logits, .b = view_of(weight_, rank_.values.begin()), .c = gradient});
    rank_.values.end();
    here.gradient_ready =
        context.communicator.start_all_reduce(Group::vocab_gradient, gradient, ReduceOp::sum);
    waits_.started(VocabularyCall::hidden_gradient, microbatch, here.gradient_ready);
  }
  waits_.wait(VocabularyCall::hidden, microbatch,
              here.hidden_ready);  // the last rank's: it is still being read
  ops.gemm({.a = here.logits,
            .b = here.hidden,
            .c = view_of(weight_, rank_.gradients.open(unit_)),
            .a_transposed = true,
            .accumulate = true});
  here.logits.reset();
  here.statistics.reset();
  here.hidden.reset();
  rank_.gradients.done(unit_);
  rank_.gradients.end_action();
}

Tensor VocabularyShard::hidden_gradient(std::uint32_t microbatch) {
  const TrainingContext& context = rank_.context;
  Microbatch& here = at(microbatch);
  waits_.wait(VocabularyCall::hidden_gradient, microbatch, here.gradient_ready);
  if (context.config.numerics.precision == DType::fp32 && !context.sequence_parallel)
    return std::move(here.hidden_gradient);
  Tensor rounded = context.make_stream(Category::workspace, "gradient of final norm");
  context.operators.copy(context.own_rows(here.hidden_gradient), rounded);
  here.hidden_gradient.reset();
  return rounded;
}

void VocabularyShard::finish_step() {
  for (std::uint32_t m = 0; m < microbatches_.size(); ++m)
    waits_.wait(VocabularyCall::hidden_gradient, m, at(m).gradient_ready);
}

}  // namespace plumbline::training
