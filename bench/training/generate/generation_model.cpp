#include "bench/training/generate/generation_model.hpp"

#include <numeric>
#include <utility>

#include "core/schedule/schedule.hpp"

namespace plumbline::generation {
namespace {

using training::RankParameters;
using training::StageMap;

constexpr int kStreamTag = 1;  // of messages between stages

RankParameters own_parameters(const RunConfig& config, const Communicator& communicator) {
  return rank_parameters(config, stage_per_rank(config),
                         communicator.layout().coordinates(communicator.rank()));
}

Tensor ids_on_device(const training::TrainingContext& context, const char* holder,
                     std::span<const std::int32_t> ids) {
  Tensor made = context.arena.allocate(Category::workspace, holder, 1, std::ssize(ids), DType::int32);
  context.operators.upload(ids.data(), made);
  return made;
}

}  // namespace

StageMap stage_per_rank(const RunConfig& config) {
  Schedule schedule;
  schedule.ranks = schedule.stages = config.parallel.pipeline;
  schedule.rank_of_stage.resize(static_cast<std::size_t>(schedule.stages));
  std::iota(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), 0);
  return StageMap(schedule);
}

RunConfig generation_config(RunConfig config) {
  config.parallel.sequence_parallel = config.parallel.tp.comm_overlap = false;
  config.parallel.dp.zero_stage = 0;
  config.parallel.dp.overlap_param_gather.reset();
  config.parallel.ep.overlap_comm = config.parallel.ep.shared_expert_overlap = false;
  config.numerics.attention_backend = AttentionBackend::fused;
  config.numerics.hidden_dropout = config.numerics.attention_dropout = 0;
  config.recompute.granularity = Recompute::none;
  config.mixture = MixtureConfig();
  return config;
}

GenerationModel::GenerationModel(const RunConfig& config, Operators& operators, Communicator& communicator,
                                 Arena& arena)
    : config_(generation_config(config)),
      rank_({config_, training::LayerWidths(config_), operators, communicator, arena, tensor_communication_,
             Category::workspace, nullptr, nullptr, true},
            stage_per_rank(config_), own_parameters(config_, communicator)),
      stage_(rank_.parameters.stages.front()),
      layers_(rank_, stage_),
      rope_cos_(std::move(rank_.shared.rope_cos)),
      rope_sin_(std::move(rank_.shared.rope_sin)),
      cache_(rank_.context, stage_.part.first_layer),
      attention_(rank_.context, cache_, rank_.shared.attention_scratch) {
  rank_.shared.attention = &attention_;
  if (stage_.part.first()) {
    input_.emplace(rank_, stage_);
    embedding_norm_.emplace(rank_, stage_);
    uses_ = input_->units();
  }
  uses_.insert(uses_.end(), layers_.units().begin(), layers_.units().end());
  if (stage_.part.last()) {
    output_.emplace(rank_, stage_);
    uses_.push_back(output_->units().front());
  }
}

int GenerationModel::last_rank() const {
  const Communicator& communicator = rank_.context.communicator;
  const int replica = communicator.layout().coordinates(communicator.rank()).data;
  return communicator.layout().rank_of({0, replica, config_.parallel.pipeline - 1});
}

void GenerationModel::begin_pass(std::span<const SequenceRows> rows, std::int64_t tokens) {
  training::TrainingContext& context = rank_.context;
  context.shape = training::LayerWidths(config_, 1, tokens);
  attention_.begin_pass(rows);
  std::vector<std::int32_t> positions;
  positions.reserve(static_cast<std::size_t>(tokens));
  for (const SequenceRows& sequence : rows) {
    for (std::int64_t i = 0; i < sequence.count; ++i)
      positions.push_back(static_cast<std::int32_t>(sequence.past + i));
  }
  rank_.shared.rope_cos.reset();
  rank_.shared.rope_sin.reset();
  positions_.reset();
  positions_ = ids_on_device(context, "positions of a pass", positions);
  rank_.shared.positions = positions_;
  if (!rope_cos_) return;
  const auto rows_of = [&](const Tensor& table) {
    Tensor gathered =
        context.make_fp32(Category::workspace, "rotary table of a pass", tokens, table.matrix().cols);
    context.operators.embedding_forward(positions_, table, 0, gathered);
    return gathered;
  };
  rank_.shared.rope_cos = rows_of(rope_cos_);
  rank_.shared.rope_sin = rows_of(rope_sin_);
}

Tensor GenerationModel::first_stream(std::span<const std::int32_t> tokens) {
  const training::TrainingContext& context = rank_.context;
  Tensor stream = context.make_stream(context.kept, "layer input");
  if (!input_) {
    Ticket received =
        context.communicator.receive(stream, rank_.rank_of_stage(stage_.part.stage - 1), kStreamTag);
    context.communicator.wait(received);
    return stream;
  }
  input_->forward(ids_on_device(context, "input tokens", tokens), stream);
  embedding_norm_->forward(stream);
  return stream;
}

Tensor GenerationModel::forward(std::span<const SequenceRows> rows, std::span<const std::int32_t> tokens) {
  training::TrainingContext& context = rank_.context;
  begin_pass(rows, std::ssize(tokens));
  rank_.values.begin_action(uses_);
  rank_.expert_values.begin_action(layers_.expert_units());
  Tensor stream = layers_.run(0, first_stream(tokens));
  if (output_) return logits_of_last(rows, std::move(stream));
  Ticket sent = context.communicator.send(stream, rank_.rank_of_stage(stage_.part.stage + 1), kStreamTag);
  context.communicator.wait(sent);
  return {};
}

Tensor GenerationModel::logits_of_last(std::span<const SequenceRows> rows, Tensor stream) {
  training::TrainingContext& context = rank_.context;
  context.shape = training::LayerWidths(config_, 1, std::ssize(rows));
  training::NormedOutput saved;
  saved.input = context.make_stream(context.kept, "last tokens");
  std::vector<std::int32_t> last;
  last.reserve(rows.size());
  for (const SequenceRows& sequence : rows)
    last.push_back(static_cast<std::int32_t>(sequence.row + sequence.count - 1));
  context.operators.embedding_forward(ids_on_device(context, "rows of last tokens", last), stream, 0,
                                      saved.input);
  stream.reset();
  output_->normalise(saved);
  return output_->project(saved.norm, Category::logits, DType::fp32);
}

}  // namespace plumbline::generation
