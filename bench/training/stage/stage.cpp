#include "bench/training/stage/stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/training/stage/layer_use.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {

ModelStage::ModelStage(RankResources& rank, const StageEntry& entry, bool joint, VocabularyEnds* vocabulary,
                       HostSide* host)
    : rank_(rank),
      part_(entry.part),
      joint_(joint),
      vocabulary_(vocabulary),
      in_flight_(rank.placement.microbatches, entry.part.layers, entry.part.modules) {
  const TrainingContext& context = rank.context;
  const int microbatches = rank.placement.microbatches / rank.placement.routes;
  for (std::int64_t i = 0; i < part_.layers; ++i) {
    layers_.emplace_back(rank.memory, entry, part_.first_layer + i, rank.fp8.layer(entry, i));
    rank.gradients.expect(layers_.back().trained_unit(), microbatches);
    if (layers_.back().expert_unit >= 0) rank.gradients.expect(layers_.back().expert_unit, microbatches);
  }
  if (part_.first()) {
    input_.emplace(rank, entry, vocabulary != nullptr ? &vocabulary->input : nullptr);
    embedding_norm_.emplace(rank, entry);
    for (const int unit : input_->units()) rank.gradients.expect(unit, microbatches);
  }
  if (part_.last()) {
    output_.emplace(rank, entry, vocabulary != nullptr ? &vocabulary->output : nullptr);
    for (const int unit : output_->units()) rank.gradients.expect(unit, microbatches);
    if (part_.modules > 0) modules_.emplace(rank, entry, *output_);
    module_losses_.resize(static_cast<std::size_t>(part_.modules));
  }
  const auto together =
      recomputes_all() ? static_cast<std::size_t>(context.config.recompute.num_layers) : layers_.size();
  for (std::size_t first = 0; first < layers_.size(); first += together) {
    groups_.push_back({first, std::min(first + together, layers_.size())});
  }
  if (host != nullptr && layers_.size() > 1) {
    const auto some = static_cast<std::size_t>(context.config.offload.num_layers);
    offloaded_.emplace(context, *host, std::min(some, layers_.size() - 1));
  }
  make_uses();
  if (joint_) return;
  if (!part_.last() && !part_.next_is_here) {
    send_forward_ = context.make_stream(Category::communication, "send-forward buffer");
  }
  if (!part_.first() && !part_.previous_is_here) {
    send_backward_ = context.make_stream(Category::communication, "send-backward buffer");
  }
}

bool ModelStage::recomputes_all() const {
  return rank_.context.config.recompute.granularity == Recompute::full;
}

void ModelStage::link(ModelStage* previous, ModelStage* next) {
  previous_ = previous;
  next_ = next;
}

void ModelStage::Uses::add(const Layer& layer) {
  units.push_back(layer.unit);
  if (layer.expert_unit >= 0) experts.push_back(layer.expert_unit);
}

void ModelStage::make_uses() {
  if (input_) forward_uses_.units = input_->units();
  for (const Layer& layer : layers_) forward_uses_.add(layer);
  if (modules_) {
    for (std::int64_t i = 0; i < part_.modules; ++i)
      forward_uses_.units.push_back(modules_->embedding_unit());
    for (const Layer& layer : modules_->layers()) forward_uses_.add(layer);
  }
  if (output_) {
    for (std::int64_t i = 0; i <= part_.modules; ++i) {  // once for each that shares it
      for (Uses* uses : {&forward_uses_, &backward_uses_})
        uses->units.insert(uses->units.end(), output_->units().begin(), output_->units().end());
    }
  }
  for (std::size_t i = modules_ ? modules_->layers().size() : 0; i-- > 0;) {
    for (int time = 0; time < (recomputes_all() ? 2 : 1); ++time) backward_uses_.add(modules_->layers()[i]);
  }
  for (std::size_t g = groups_.size(); g-- > 0;) {
    const Group& group = groups_[g];
    for (std::size_t i = group.first; recomputes_all() && i < group.end; ++i) backward_uses_.add(layers_[i]);
    for (std::size_t i = group.end; i-- > group.first;) backward_uses_.add(layers_[i]);
  }
}

void ModelStage::begin_action(const Uses& uses, std::uint32_t microbatch) {
  rank_.use_conversations(microbatch);
  rank_.values.begin_action(uses.units);
  rank_.expert_values.begin_action(uses.experts);
}

MicrobatchState& ModelStage::held(std::uint32_t microbatch, const char* action) {
  if (!in_flight_.holds(microbatch)) {
    throw Error(fmt::format("{}{}{}: the micro-batch has not been forward on this stage, or is already done",
                            part_.stage, action, microbatch));
  }
  return in_flight_.at(microbatch);
}

Matrix ModelStage::receive_forward(std::uint32_t microbatch) {
  MicrobatchState& state = in_flight_.at(microbatch);
  Tensor& input = layers_.empty() ? state.output.input : state.layers.front().input;
  input = rank_.context.make_stream(Category::activations, "layer input");
  return input;
}

Matrix ModelStage::receive_embedded(std::uint32_t microbatch) {
  Tensor& input = in_flight_.at(microbatch).layers.front().input;
  input = rank_.context.make_all_rows(Category::activations, "layer input");
  return input;
}

Matrix ModelStage::receive_backward(std::uint32_t microbatch) {
  Tensor& gradient = in_flight_.at(microbatch).output_gradient;
  gradient = rank_.context.make_stream(Category::communication, "gradient of the stage's output");
  return gradient;
}

Matrix ModelStage::stage_output(std::uint32_t microbatch, MicrobatchState& state) {
  if (part_.last()) {
    state.output.input = rank_.context.make_stream(Category::activations, "layer input");
    return state.output.input;
  }
  if (joint_) {
    joint_output_ = rank_.context.make_stream(Category::activations, "stage output");
    return joint_output_;
  }
  return next_ != nullptr ? next_->receive_forward(microbatch) : send_forward_.matrix();
}

void ModelStage::forward(std::uint32_t microbatch) {
  const TrainingContext& context = rank_.context;
  const bool begins = part_.first() && vocabulary_ == nullptr;
  MicrobatchState& state = begins ? in_flight_.at(microbatch) : held(microbatch, "F");
  const MicrobatchDropout dropout = rank_.dropout(microbatch);
  begin_action(forward_uses_, microbatch);
  if (begins) {
    input_->forward(rank_.input_tokens(microbatch), receive_forward(microbatch));
  } else if (input_) {
    input_->finish_forward(microbatch, state.layers.front().input);
  }
  if (input_) {
    Tensor& input = state.layers.front().input;
    embedding_norm_->forward(input, state.embedded);
    state.input_mask = dropout.drop(dropout_site::kEmbedding, input);
  }
  for (const Group& group : groups_) {
    for (std::size_t i = group.first; i < group.end; ++i) {
      LayerActivations& saved = state.layers[i];
      const LayerWeights weights = begin_use(rank_, layers_[i]);
      layer_forward(context, rank_.shared, dropout, layers_[i], weights, saved);
      rank_.note_expert_load(microbatch, layers_[i].index, saved.mixture.routing);
      Matrix output;
      if (i + 1 == layers_.size()) {
        output = stage_output(microbatch, state);
      } else {
        Tensor& next = state.layers[i + 1].input;
        next = context.make_stream(Category::activations, "layer input");
        output = next;
      }
      layer_output(context, dropout, layers_[i], weights, saved, output);
      if (recomputes_all()) {
        saved.keep_input_only();
        if (i != group.first) saved.input.reset();
      }
      end_use(rank_, layers_[i]);
      if (offloaded_) offloaded_->forward_done(i, state);
      progress();
    }
  }
  if (!output_) return;
  if (modules_) {
    modules_->forward(microbatch, state.output, state.modules,
                      [&](const Layer& layer, const Routing& routing) {
                        rank_.note_expert_load(microbatch, layer.index, routing);
                      });
  } else {
    output_->forward(microbatch, state.output);
  }
  if (!context.config.distillation.teacher && vocabulary_ == nullptr) {
    const Matrix targets = rank_.target_tokens(microbatch);
    const double scale = rank_.scaled_per_token();
    add_loss(rank_.policy_tokens
                 ? output_->policy_loss(targets, rank_.policy_tokens_of(microbatch), scale, state.output)
                 : output_->loss(targets, scale, state.output));
  }
  if (modules_) modules_->loss(microbatch, state.modules, module_losses_);
}

void ModelStage::progress() const {
  if (vocabulary_ != nullptr) rank_.context.communicator.progress();
}

Matrix ModelStage::logits(std::uint32_t microbatch) {
  return in_flight_.holds(microbatch) ? in_flight_.at(microbatch).output.logits.matrix() : Matrix();
}

}  // namespace plumbline::training
