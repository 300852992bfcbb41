#include "bench/training/stage/rank_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

/// Throws if the groups were made for another configuration.
void check_layout(const Layout& found, const Layout& expected) {
  if (found.tensor == expected.tensor && found.pipeline == expected.pipeline && found.data == expected.data &&
      found.kv_sharing == expected.kv_sharing && found.vocab_parallel == expected.vocab_parallel &&
      found.context == expected.context && found.expert == expected.expert &&
      found.expert_slices() == expected.expert_slices() && found.zero_param == expected.zero_param &&
      found.optimizer_instance == expected.optimizer_instance)
    return;
  throw Error(
      fmt::format("communicator: found the layout tp{} pp{} dp{} kv{} cp{} ep{} etp{} hpz{} instances of {} "
                  "split vocabulary "
                  "{}, expected "
                  "tp{} pp{} dp{} kv{} cp{} ep{} etp{} hpz{} instances of {} "
                  "split vocabulary {}",
                  found.tensor, found.pipeline, found.data, found.kv_sharing, found.context, found.expert,
                  found.expert_slices(), found.zero_param, found.optimizer_instance, found.vocab_parallel,
                  expected.tensor, expected.pipeline, expected.data, expected.kv_sharing, expected.context,
                  expected.expert, expected.expert_slices(), expected.zero_param, expected.optimizer_instance,
                  expected.vocab_parallel));
}

bool is_vocabulary_pass(ActionType type) {
  return type == ActionType::input_forward || type == ActionType::input_backward ||
         type == ActionType::vocab_forward || type == ActionType::vocab_backward;
}

RankParameters own_parameters(const RunConfig& config, const StageMap& placement,
                              const Communicator& communicator) {
  const Coordinates at = communicator.layout().coordinates(communicator.rank());
  return rank_parameters(config, placement, at);
}

std::optional<LossScaler> loss_scaler_of(const NumericsConfig& numerics) {
  if (numerics.precision != DType::fp16) return std::nullopt;
  return std::optional<LossScaler>(std::in_place, numerics.loss_scale);
}

}  // namespace

RankStages::RankStages(const RunConfig& config, const Schedule& schedule, Operators& operators,
                       Communicator& communicator, Arena& arena, HostLane* lane)
    : config_(config),
      loss_scaler_(loss_scaler_of(config.numerics)),
      turns_(config.parallel.ep.overlap_comm ? std::make_unique<Turns>() : nullptr),
      rank_({config_, LayerWidths(config_), operators, communicator, arena, tensor_communication_,
             Category::activations, turns_.get(),
             config.mixture.balances_globally() ? &running_loads_ : nullptr, false,
             loss_scaler_ ? &*loss_scaler_ : nullptr},
            StageMap(schedule), own_parameters(config_, StageMap(schedule), communicator)),
      stages_(static_cast<std::size_t>(schedule.stages)),
      end_(rank_) {
  check_layout(communicator.layout(), config_.layout());
  if (config_.numerics.fp8.on()) {
    for (UnitValues* values : {&rank_.values, &rank_.expert_values})
      values->use_gathered([this](int unit) { rank_.fp8.quantize_weights(unit); });
  }
  const std::int64_t microbatches = rank_.placement.microbatches;
  for (const StageEntry& entry : rank_.parameters.stages) {
    const auto make_tokens = [&](const char* holder) {
      return arena.allocate(Category::workspace, holder, microbatches, rank_.context.shape.tokens,
                            DType::int32);
    };
    if ((entry.part.first() || config_.parallel.splits_vocabulary()) && !rank_.inputs)
      rank_.inputs = make_tokens("input tokens");
    if ((entry.part.last() || config_.parallel.splits_vocabulary()) && !rank_.targets)
      rank_.targets = make_tokens("target tokens");
    if (config_.reinforces() && entry.part.last()) {
      rank_.policy_tokens = rank_.context.make_fp32(Category::workspace, "policy tokens", 4 * microbatches,
                                                    rank_.context.shape.tokens);
    }
    if (entry.part.modules > 0) {
      const auto make_ahead = [&](const char* holder) {
        return arena.allocate(Category::workspace, holder, entry.part.modules * microbatches,
                              rank_.context.shape.tokens, DType::int32);
      };
      rank_.module_inputs = make_ahead("module input tokens");
      rank_.module_targets = make_ahead("module target tokens");
    }
    for (const StageEntry& other : rank_.parameters.stages) {
      if (other.part.index != entry.part.index || other.part.stage <= entry.part.stage) continue;
      throw Error(
          fmt::format("schedule {}: found both copies of part {} (stages {} and {}) on one rank, "
                      "expected them on two",
                      schedule.name, entry.part.index, entry.part.stage, other.part.stage));
    }
  }
  if (config_.offload.on()) {
    if (lane == nullptr) own_lane_ = plain_host_lane();
    host_ = std::make_unique<HostSide>(lane != nullptr ? *lane : *own_lane_);
  }
  if (config_.parallel.splits_vocabulary()) vocabulary_ = std::make_unique<VocabularyEnds>(rank_);
  for (const StageEntry& entry : rank_.parameters.stages) {
    ModelStage*& stage = stages_[static_cast<std::size_t>(entry.part.stage)];
    if (config_.distillation.teacher) {
      distillation_ =
          std::make_unique<DistillationStage>(rank_, tensor_communication_, schedule.joint_teacher);
      stage = &distillation_->student();
    } else {
      own_stages_.push_back(
          std::make_unique<ModelStage>(rank_, entry, false, vocabulary_.get(), host_.get()));
      stage = own_stages_.back().get();
    }
  }
  for (const StageEntry& entry : rank_.parameters.stages) {
    const auto here = static_cast<std::size_t>(entry.part.stage);
    stages_[here]->link(entry.part.previous_is_here ? stages_[here - 1] : nullptr,
                        entry.part.next_is_here ? stages_[here + 1] : nullptr);
  }
}

ModelStage& RankStages::stage(const Action& action) {
  if (action.stage >= stages_.size() || stages_[action.stage] == nullptr) {
    throw Error(fmt::format("action {}: stage {} is not on this rank", to_string(action), action.stage));
  }
  return *stages_[action.stage];
}

void RankStages::clear_gradients() {
  if (!rank_.context.frozen) rank_.context.operators.fill(rank_.memory.gradients.vectors, 0);
  rank_.context.operators.fill(rank_.memory.gradients.matrices, 0);
}

void RankStages::start_step(const std::int32_t* inputs, const std::int32_t* targets, std::int64_t counted,
                            const TokensAhead& ahead) {
  if (++rank_.step == 1) rank_.fp8.quantize_weights();
  if (loss_scaler_) loss_scaler_->start_step();
  rank_.counted_tokens = counted;
  rank_.module_counted = ahead.counted;
  for (std::int64_t k = std::ssize(rank_.module_counted) + 1; k <= config_.model.prediction_modules; ++k)
    rank_.module_counted.push_back(config_.batch.global_batch_size * (config_.batch.seq_length - k));
  rank_.expert_load.clear();
  rank_.attended_pairs = 0;
  if (distillation_) distillation_->start_step();
  running_loads_.clear();
  if (rank_.module_inputs && !ahead.inputs.empty()) {
    rank_.context.operators.upload(ahead.inputs.data(), rank_.module_inputs);
    rank_.context.operators.upload(ahead.targets.data(), rank_.module_targets);
  }
  if (rank_.inputs && inputs != nullptr) rank_.context.operators.upload(inputs, rank_.inputs);
  if (rank_.targets && targets != nullptr) rank_.context.operators.upload(targets, rank_.targets);
  if (!gradients_clear_) clear_gradients();
  gradients_clear_ = false;
  tensor_communication_ = data_communication_ = {};
  if (host_) host_->waited = {};
  rank_.values.start_step();
  rank_.expert_values.start_step();
  rank_.gradients.start_step();
  for (ModelStage* stage : stages_) {
    if (stage != nullptr) stage->start_step();
  }
  if (vocabulary_) vocabulary_->start_step();
  samples_.clear();
  rank_.context.arena.sample();
}

void RankStages::resume_after(std::int64_t steps, const std::optional<LossScaleState>& scale) {
  rank_.step = steps;
  end_.resume_after(scale ? steps - scale->skipped : steps);
  if (loss_scaler_ && scale) loss_scaler_->resume(*scale);
  rank_.fp8.resume_after(steps);
}

void RankStages::run_compute(const Action& action) {
  ModelStage& here = stage(action);
  if (distillation_ && action.type != ActionType::backward_weight) {
    distillation_->run(action);
  } else if (action.type == ActionType::forward) {
    here.forward(action.microbatch);
  } else if (action.type == ActionType::backward) {
    here.backward(action.microbatch);
  } else if (action.type == ActionType::backward_input) {
    here.backward_input(action.microbatch);
  } else {
    here.backward_weight(action.microbatch);
  }
}

void RankStages::run_vocabulary(const Action& action) {
  const std::uint32_t microbatch = action.microbatch;
  if (action.type == ActionType::input_forward) {
    if (microbatch == 0) vocabulary_->output.join_hidden(microbatch);
    const bool first = stages_.front() != nullptr;
    vocabulary_->input.forward(microbatch, first ? stages_.front()->receive_embedded(microbatch) : Matrix());
  } else if (action.type == ActionType::input_backward) {
    vocabulary_->input.backward(microbatch);
  } else if (action.type == ActionType::vocab_forward) {
    vocabulary_->output.forward(microbatch);
  } else {
    vocabulary_->output.backward(microbatch);
  }
}

template <class Work>
void RankStages::count_waits(const Work& work) {
  const auto waited = [this] {
    return rank_.values.waited() + rank_.expert_values.waited() + rank_.gradients.waited();
  };
  const Seconds before = waited();
  work();
  data_communication_ += waited() - before;
}

void RankStages::run(const Action& action) {
  if (is_compute(action.type)) return count_waits([&] { run_action(action); });
  // The step's end has its own times; its reductions over tensor ranks are no part of the stages'
  // computation.
  const Seconds before = tensor_communication_;
  run_action(action);
  tensor_communication_ = before;
}

void RankStages::run_pair(const Action& first, const Action& second,
                          const std::function<void(const Action&)>& goes_on) {
  count_waits([&] {
    turns_->run([&] { run_compute(first); }, [&] { run_compute(second); },
                [&](std::size_t turn) { goes_on(turn == 0 ? first : second); });
  });
  finish();
}

void RankStages::run_action(const Action& action) {
  const bool teacher = action.type == ActionType::teacher_forward && distillation_;
  if (vocabulary_) rank_.context.communicator.progress();
  if (vocabulary_ && is_vocabulary_pass(action.type)) {
    run_vocabulary(action);
    finish();
    return;
  }
  switch (teacher ? ActionType::forward : action.type) {
    case ActionType::forward:
    case ActionType::backward:
    case ActionType::backward_input:
    case ActionType::backward_weight:
      run_compute(action);
      break;
    case ActionType::reduce_gradients:
      end_.reduce_gradients();
      break;
    case ActionType::reduce_embedding:
      end_.reduce_embedding();
      break;
    case ActionType::optimizer:
      if (vocabulary_) vocabulary_->finish_step();
      for (const ModelStage* stage : stages_) {
        if (stage != nullptr) stage->finish_gradients();
      }
      end_.update();
      if (!keep_gradients_) clear_gradients();
      gradients_clear_ = !keep_gradients_;
      break;
    default:
      throw Error(
          fmt::format("action {} is not executable: found type {}, expected F, B, I, W, TF with a teacher, "
                      "S, T, IF and "
                      "IB with a split vocabulary, their transfers, ARG, ARE or OPT",
                      to_string(action), name_of(action.type)));
  }
  finish();
}

/// An emulated rank sleeps through its computation here; its communicator lets collectives continue
/// meanwhile. A device runs on without waiting, and the host requests the next action.
void RankStages::finish() {
  if (config_.machine.backend != Backend::emulated) return;
  if (vocabulary_) rank_.context.communicator.now();
  rank_.context.operators.synchronize();
}

Matrix RankStages::send_buffer(const Action& action) {
  if (distillation_) return distillation_->send_buffer(action);
  return action.type == ActionType::send_forward ? stage(action).send_forward_buffer()
                                                 : stage(action).send_backward_buffer();
}

Matrix RankStages::receive_buffer(const Action& action) {
  if (distillation_) return distillation_->receive_buffer(action);
  return action.type == ActionType::receive_forward ? stage(action).receive_forward(action.microbatch)
                                                    : stage(action).receive_backward(action.microbatch);
}

void RankStages::finished(const Action& /*action*/) {
  samples_.push_back(rank_.context.arena.sample());
}

double RankStages::loss() const {
  double sum = vocabulary_ ? vocabulary_->output.loss_sum() : 0;
  for (const ModelStage* stage : stages_) {
    if (stage != nullptr) sum += stage->loss_sum();
  }
  return sum * rank_.per_token();
}

std::vector<double> RankStages::module_losses() const {
  std::vector<double> losses(static_cast<std::size_t>(config_.model.prediction_modules));
  for (const ModelStage* stage : stages_) {
    for (std::size_t k = 0; stage != nullptr && k < stage->module_loss_sums().size(); ++k)
      losses[k] += stage->module_loss_sums()[k].value() /
                   static_cast<double>(std::max<std::int64_t>(rank_.module_counted[k], 1));
  }
  return losses;
}

}  // namespace plumbline::training
