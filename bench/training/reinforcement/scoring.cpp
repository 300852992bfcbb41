#include "bench/training/reinforcement/scoring.hpp"

#include <algorithm>

#include "bench/training/ends/policy_loss.hpp"
#include "bench/training/stage/teacher.hpp"

namespace plumbline::reinforcement {
namespace {

constexpr int kStreamTag = 2;  // of messages between stages

RunConfig forward_config(RunConfig config) {
  config.parallel.dp.zero_stage = 0;
  config.parallel.dp.overlap_param_gather.reset();
  config.recompute.granularity = Recompute::none;
  config.mixture = MixtureConfig();
  return config;
}

class Scorer {
 public:
  explicit Scorer(training::RankResources& model)
      : model_(model),
        context_(model.context),
        entry_(model.parameters.stages.front()),
        stage_(model, entry_, false) {
    const auto tokens = [&](const char* holder) {
      return context_.arena.allocate(Category::workspace, holder, 1, context_.shape.tokens, DType::int32);
    };
    if (entry_.part.first()) inputs_ = tokens("input tokens to score");
    if (entry_.part.last()) targets_ = tokens("target tokens to score");
    model_.values.start_step();
    model_.expert_values.start_step();
  }

  /// Scores of a micro-batch's rows; empty but on a last stage.
  std::vector<float> forward(const PolicyBatch& batch) {
    Communicator& communicator = context_.communicator;
    if (inputs_) context_.operators.upload(batch.inputs.data(), inputs_);
    if (!entry_.part.first()) {
      Ticket received =
          communicator.receive(stage_.receive(0), model_.rank_of_stage(entry_.part.stage - 1), kStreamTag);
      communicator.wait(received);
    }
    stage_.forward(0, inputs_ ? inputs_.matrix() : Matrix());
    if (!entry_.part.last()) {
      Ticket sent =
          communicator.send(stage_.send_buffer(), model_.rank_of_stage(entry_.part.stage + 1), kStreamTag);
      communicator.wait(sent);
      return {};
    }
    context_.operators.upload(batch.targets.data(), targets_);
    const Tensor logits = stage_.take_logits(0);
    const bool scalar = context_.model().embedding.scalar_head;
    return (scalar ? training::token_values : training::log_probabilities)(
        context_, stage_.output_end().columns(), targets_, logits);
  }

 private:
  training::RankResources& model_;
  const training::TrainingContext& context_;
  const training::StageEntry& entry_;
  training::TeacherStage stage_;
  Tensor inputs_, targets_;
};

}  // namespace

ScoringModel::ScoringModel(const RunConfig& of, const training::StageMap& placement, Operators& operators,
                           Communicator& messages, Arena& arena, training::HostSide* host,
                           std::optional<Matrix> scratch)
    : config(forward_config(of)),
      resources({config, training::LayerWidths(config), operators, messages, arena, communication,
                 Category::workspace, nullptr, nullptr, true},
                placement, rank_parameters(config, placement, messages.layout().coordinates(messages.rank())),
                scratch),
      states(resources, host) {
  states.store_parameters();
}

void ScoringModel::load(const training::SliceReader& weights) {
  states.load_parameters();
  load_weights(resources, weights);
  states.store_parameters();
}

std::vector<std::vector<float>> score(training::RankResources& model, std::span<const Response> responses,
                                      Communicator& control, ScoredRows which) {
  const RunConfig& config = model.context.config;
  const Communicator& communicator = model.context.communicator;
  const Coordinates at = communicator.layout().coordinates(communicator.rank());
  const std::int64_t together = config.batch.micro_batch_size;
  const std::int64_t seq = config.batch.seq_length;
  std::vector<float> rows(responses.size() * static_cast<std::size_t>(seq));
  {
    Scorer scorer(model);
    const std::int64_t all = std::ssize(responses) / together;
    for (std::int64_t m = at.data; m < all; m += communicator.layout().data) {
      const std::vector<float> found = scorer.forward(scored_batch(config, responses, m * together));
      if (at.tensor != 0) continue;  // tensor ranks find the same
      std::copy(found.begin(), found.end(), rows.begin() + m * together * seq);
    }
  }
  control.all_reduce(Group::world, Matrix(rows.data(), 1, std::ssize(rows), DType::fp32), ReduceOp::sum);
  std::vector<std::vector<float>> scores;
  for (std::int64_t r = 0; r < std::ssize(responses); ++r) {
    const Response& response = responses[static_cast<std::size_t>(r)];
    const auto first = rows.begin() + r * seq + row_of(response, which == ScoredRows::at_ids ? 1 : 0);
    scores.emplace_back(first, first + std::ssize(response.ids));
  }
  return scores;
}

}  // namespace plumbline::reinforcement
