#include "bench/training/stage/forward_model.hpp"

#include "core/schedule/schedule.hpp"

namespace plumbline::training {
namespace {

/// The logits are to be as exact as the forward that makes them.
RunConfig evaluation_config(RunConfig config) {
  config.distillation.cache = DistillationCache::logits;
  config.distillation.cache_dtype = DistillationCacheDType::fp32;
  return config;
}

/// One stage on one rank.
StageMap whole_model() {
  Schedule schedule;
  schedule.rank_of_stage = {0};
  return StageMap(schedule);
}

}  // namespace

ForwardModel::ForwardModel(const RunConfig& config, Operators& operators, Communicator& communicator,
                           Arena& arena)
    : config_(evaluation_config(config)),
      rank_({config_, LayerWidths(config_), operators, communicator, arena, tensor_communication_,
             Category::teacher},
            whole_model(), rank_parameters(config_, whole_model(), {})),
      stage_(rank_, rank_.parameters.stages.front(), false) {
  const std::int64_t tokens = rank_.context.shape.tokens;
  rank_.inputs = arena.allocate(Category::workspace, "input tokens", 1, tokens, DType::int32);
  rank_.targets = arena.allocate(Category::workspace, "target tokens", 1, tokens, DType::int32);
}

ForwardModel::Evaluation ForwardModel::evaluate(std::span<const std::int32_t> inputs,
                                                std::span<const std::int32_t> targets) {
  Operators& operators = rank_.context.operators;
  operators.upload(inputs.data(), rank_.inputs);
  operators.upload(targets.data(), rank_.targets);
  rank_.values.start_step();
  stage_.forward(0, rank_.input_tokens(0));
  const Tensor logits = stage_.take_logits(0);
  const VocabularyColumns& columns = stage_.output_end().columns();
  const Matrix all = logits;
  Evaluation made;
  made.last_logits.resize(static_cast<std::size_t>(all.cols));
  operators.download(all.row_range(all.rows - 1, 1), made.last_logits.data());
  made.last_logits.resize(static_cast<std::size_t>(columns.valid));  // without padding
  // The loss leaves its gradient in the logits.
  const Number loss = cross_entropy(rank_, columns, rank_.target_tokens(0), logits, 1);
  operators.synchronize();
  made.loss = loss.value() / static_cast<double>(inputs.size());
  return made;
}

}  // namespace plumbline::training
