#include "bench/training/stage/stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/training/tape/pass.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {

ModelStage::ModelStage(RankResources& rank, const StageEntry& entry, bool joint, VocabularyEnds* vocabulary,
                       HostSide* host)
    : rank_(rank), part_(entry.part), joint_(joint), vocabulary_(vocabulary), tape_(rank.context) {
  const TrainingContext& context = rank.context;
  make_layers(entry);
  make_ends(entry);
  if (host != nullptr && layers_.size() > 1) {
    const auto some = static_cast<std::size_t>(context.config.offload.num_layers);
    offloaded_.emplace(context, *host, std::min(some, layers_.size() - 1));
  }
  record();
  if (offloaded_) offloaded_->set_kept(kept_by_layers());
  in_flight_.emplace(rank.placement.microbatches, tape_.memories(), tape_.mixtures());
  if (joint_) return;
  if (!part_.last() && !part_.next_is_here) {
    send_forward_ = context.make_stream(Category::communication, "send-forward buffer");
  }
  if (!part_.first() && !part_.previous_is_here) {
    send_backward_ = context.make_stream(Category::communication, "send-backward buffer");
  }
}

void ModelStage::make_layers(const StageEntry& entry) {
  const int microbatches = rank_.placement.microbatches / rank_.placement.routes;
  layers_.reserve(static_cast<std::size_t>(part_.layers));  // entries of the tape refer to them
  for (std::int64_t i = 0; i < part_.layers; ++i) {
    const Layer& layer =
        layers_.emplace_back(rank_.memory, entry, part_.first_layer + i, rank_.fp8.layer(entry, i));
    rank_.gradients.expect(layer.trained_unit(), microbatches);
    if (layer.expert_unit >= 0) rank_.gradients.expect(layer.expert_unit, microbatches);
  }
}

void ModelStage::make_ends(const StageEntry& entry) {
  const int microbatches = rank_.placement.microbatches / rank_.placement.routes;
  if (part_.first()) {
    input_.emplace(rank_, entry, vocabulary_ != nullptr ? &vocabulary_->input : nullptr);
    embedding_norm_.emplace(rank_, entry);
    for (const int unit : input_->units()) rank_.gradients.expect(unit, microbatches);
  }
  if (!part_.last()) return;
  output_.emplace(rank_, entry, vocabulary_ != nullptr ? &vocabulary_->output : nullptr);
  for (const int unit : output_->units()) rank_.gradients.expect(unit, microbatches);
  if (part_.modules > 0) modules_.emplace(rank_, entry);
  module_losses_.resize(static_cast<std::size_t>(part_.modules));
}

bool ModelStage::defers_output_gradient() const {
  return output_ && rank_.context.config.parallel.pp.defer_embedding_wgrad_compute;
}

void ModelStage::link(ModelStage* previous, ModelStage* next) {
  previous_ = previous;
  next_ = next;
}

void ModelStage::require(std::uint32_t microbatch, const char* action) const {
  if (in_flight_->holds(microbatch)) return;
  throw Error(fmt::format("{}{}{}: the micro-batch has not been forward on this stage, or is already done",
                          part_.stage, action, microbatch));
}

Matrix ModelStage::receive(Slot slot, std::uint32_t microbatch, Tensor made) {
  LinearOperand& received = in_flight_->at(microbatch).memory[static_cast<std::size_t>(slot.memory)];
  received = LinearOperand(std::move(made));
  return received.values();
}

Matrix ModelStage::receive_forward(std::uint32_t microbatch) {
  return receive(recorded_.input, microbatch,
                 rank_.context.make_stream(Category::activations, "layer input"));
}

Matrix ModelStage::receive_embedded(std::uint32_t microbatch) {
  return receive(recorded_.input, microbatch,
                 rank_.context.make_all_rows(Category::activations, "layer input"));
}

Matrix ModelStage::receive_backward(std::uint32_t microbatch) {
  return receive(recorded_.output_gradient, microbatch,
                 rank_.context.make_stream(Category::communication, "gradient of the stage's output"));
}

Matrix ModelStage::output_place(std::uint32_t microbatch) {
  if (joint_) {
    joint_output_ = rank_.context.make_stream(Category::activations, "stage output");
    return joint_output_;
  }
  return next_ != nullptr ? next_->receive_forward(microbatch) : send_forward_.matrix();
}

Matrix ModelStage::input_gradient_place(std::uint32_t microbatch) {
  if (joint_) {
    joint_gradient_ = rank_.context.make_stream(Category::workspace, "gradient of the stage's input");
    return joint_gradient_;
  }
  return previous_ != nullptr ? previous_->receive_backward(microbatch) : send_backward_.matrix();
}

void ModelStage::run(const Program& program, std::uint32_t microbatch) {
  Pass pass(rank_, tape_, in_flight_->at(microbatch), microbatch);
  rank_.use_conversations(microbatch);
  if (&program != &recorded_.programs.weight) {  // which uses no values
    rank_.values.begin_action(program.units);
    rank_.expert_values.begin_action(program.expert_units);
  }
  program.run(pass);
}

void ModelStage::forward(std::uint32_t microbatch) {
  const bool begins = part_.first() && vocabulary_ == nullptr;
  if (!begins) require(microbatch, "F");
  run(recorded_.programs.forward, microbatch);
}

void ModelStage::backward(std::uint32_t microbatch) {
  require(microbatch, "B");
  run(recorded_.programs.backward, microbatch);
  rank_.gradients.end_action();
  if (!defers_output_gradient()) in_flight_->release(microbatch);
}

void ModelStage::backward_input(std::uint32_t microbatch) {
  if (defers_output_gradient()) return backward(microbatch);
  require(microbatch, "I");
  run(recorded_.programs.input, microbatch);
  rank_.gradients.end_action();
}

void ModelStage::backward_weight(std::uint32_t microbatch) {
  require(microbatch, "W");
  run(recorded_.programs.weight, microbatch);
  rank_.gradients.end_action();
  in_flight_->release(microbatch);
}

Matrix ModelStage::logits(std::uint32_t microbatch) {
  if (!in_flight_->holds(microbatch)) return {};
  return in_flight_->at(microbatch).memory[static_cast<std::size_t>(recorded_.logits.memory)].values();
}

}  // namespace plumbline::training
