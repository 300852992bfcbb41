#include "bench/training/stage/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
    add_loss(output_->loss(rank_.target_tokens(microbatch), rank_.scaled_per_token(), state.output));
  }
  if (modules_) modules_->loss(microbatch, state.modules, module_losses_);
}

void ModelStage::progress() const {
  if (vocabulary_ != nullptr) rank_.context.communicator.progress();
}

Matrix ModelStage::logits(std::uint32_t microbatch) {
  return in_flight_.holds(microbatch) ? in_flight_.at(microbatch).output.logits.matrix() : Matrix();
}

void ModelStage::recompute(const Group& group, const MicrobatchDropout& dropout, MicrobatchState& state) {
  const TrainingContext& context = rank_.context;
  for (std::size_t i = group.first; i < group.end; ++i) {
    const LayerWeights weights = begin_use(rank_, layers_[i]);
    layer_forward(context, rank_.shared, dropout, layers_[i], weights, state.layers[i]);
    if (i + 1 < group.end) {
      Tensor& next = state.layers[i + 1].input;
      next = context.make_stream(Category::activations, "layer input");
      layer_output(context, dropout, layers_[i], weights, state.layers[i], next);
    } else if (norms_results(context)) {  // whose backward needs the result
      const Tensor unused = context.make_stream(Category::activations, "layer output");
      layer_output(context, dropout, layers_[i], weights, state.layers[i], unused);
    } else {
      if (context.model().block != Block::sequential) state.layers[i].middle.reset();
      state.layers[i].output_mask = dropout.mask(dropout_site::after_mlp(layers_[i].index));
    }
    end_use(rank_, layers_[i]);
  }
}

Matrix ModelStage::input_gradient_place(std::uint32_t microbatch, const Matrix& own) {
  if (part_.first()) return own;
  if (joint_) {
    joint_gradient_ = rank_.context.make_stream(Category::workspace, "gradient of the stage's input");
    return joint_gradient_;
  }
  return previous_ != nullptr ? previous_->receive_backward(microbatch) : send_backward_.matrix();
}

Matrix ModelStage::output_gradient_place(std::uint32_t microbatch, MicrobatchState& state,
                                         Category category) {
  if (layers_.empty()) return input_gradient_place(microbatch, {});
  state.output_gradient = rank_.context.make_stream(category, "gradient of the last layer");
  return state.output_gradient;
}

bool ModelStage::defers_output_gradient() const {
  return output_ && rank_.context.config.parallel.defer_embedding_wgrad_compute;
}

void ModelStage::backward(std::uint32_t microbatch) {
  MicrobatchState& state = held(microbatch, "B");
  const MicrobatchDropout dropout = rank_.dropout(microbatch);
  begin_action(backward_uses_, microbatch);
  const auto place = [&] { return output_gradient_place(microbatch, state, Category::workspace); };
  if (modules_) {
    modules_->backward(microbatch, state.output, state.modules, place, defers_output_gradient());
  } else if (defers_output_gradient()) {
    output_->backward_input(microbatch, state.output, place);
  } else if (output_) {
    output_->backward(microbatch, state.output, place);
  }
  for (std::size_t g = groups_.size(); g-- > 0;) {
    if (recomputes_all()) recompute(groups_[g], dropout, state);
    for (std::size_t i = groups_[g].end; i-- > groups_[g].first;)
      layer_backward_step(i, dropout, state, microbatch);
  }
  if (input_ && !rank_.context.frozen) {
    dropout.backward_in_place(state.output_gradient, state.input_mask);
    embedding_norm_->backward(state.output_gradient, state.embedded);
    input_->backward(microbatch, rank_.input_tokens(microbatch), state.output_gradient);
  }
  state.output_gradient.reset();
  rank_.gradients.end_action();
  if (!defers_output_gradient()) in_flight_.release(microbatch);
}

void ModelStage::layer_backward_step(std::size_t i, const MicrobatchDropout& dropout, MicrobatchState& state,
                                     std::uint32_t microbatch) {
  const TrainingContext& context = rank_.context;
  const Layer& layer = layers_[i];
  const Matrix& stream = state.output_gradient;
  const LayerWeights weights = begin_use(rank_, layer);
  if (offloaded_) offloaded_->backward_begins(i, state);
  Tensor dnorm = layer_backward(context, rank_.shared, dropout, layer, weights, rank_.gradients,
                                state.layers[i], stream);
  const Matrix to = i > 0 ? stream : input_gradient_place(microbatch, stream);
  layer_input_gradient(context, layer, state.layers[i], std::move(dnorm), stream, to);
  end_use(rank_, layer);
  layer.done(rank_.gradients);
  progress();
}

void ModelStage::backward_input(std::uint32_t microbatch) {
  if (defers_output_gradient()) return backward(microbatch);
  MicrobatchState& state = held(microbatch, "I");
  const MicrobatchDropout dropout = rank_.dropout(microbatch);
  begin_action(backward_uses_, microbatch);
  const auto place = [&] { return output_gradient_place(microbatch, state, Category::activations); };
  if (modules_) {
    modules_->backward_input(microbatch, state.output, state.modules, place);
  } else if (output_) {
    output_->backward_input(microbatch, state.output, place);
  }
  if (!layers_.empty()) state.layers.back().output_gradient = std::move(state.output_gradient);
  Tensor input_gradient;  // a first stage has no predecessor
  for (std::size_t g = groups_.size(); g-- > 0;) {
    if (recomputes_all()) recompute(groups_[g], dropout, state);
    for (std::size_t i = groups_[g].end; i-- > groups_[g].first;) {
      layer_input_step(i, dropout, state, microbatch, input_gradient);
    }
  }
  if (input_) {
    dropout.backward_in_place(input_gradient, state.input_mask);
    embedding_norm_->backward(input_gradient, state.embedded);
    input_->backward(microbatch, rank_.input_tokens(microbatch), input_gradient);
  }
  rank_.gradients.end_action();
}

void ModelStage::layer_input_step(std::size_t i, const MicrobatchDropout& dropout, MicrobatchState& state,
                                  std::uint32_t microbatch, Tensor& input_gradient) {
  const TrainingContext& context = rank_.context;
  const Layer& layer = layers_[i];
  LayerActivations& saved = state.layers[i];
  const LayerWeights weights = begin_use(rank_, layer);
  if (offloaded_) offloaded_->backward_begins(i, state);
  Tensor dnorm = layer_backward_input(context, rank_.shared, dropout, layer, weights, saved);
  Matrix to;
  if (i > 0) {
    Tensor& below = state.layers[i - 1].output_gradient;
    below = context.make_stream(Category::activations, "gradient of layer input");
    to = below;
  } else {
    if (part_.first()) input_gradient = context.make_stream(Category::workspace, "gradient of layer input");
    to = input_gradient_place(microbatch, input_gradient);
  }
  layer_input_gradient(context, layer, saved, std::move(dnorm), attention_block_gradient(saved), to);
  end_use(rank_, layer);
  progress();
}

void ModelStage::backward_weight(std::uint32_t microbatch) {
  MicrobatchState& state = held(microbatch, "W");
  if (modules_ && defers_output_gradient()) {
    modules_->output_backward_weight(state.output, state.modules);
  } else if (modules_) {
    modules_->backward_weight(state.output, state.modules);
  } else if (output_) {
    output_->backward_weight(state.output);
  }
  for (std::size_t i = defers_output_gradient() ? 0 : layers_.size(); i-- > 0;) {
    layer_backward_weight(rank_.context, layers_[i], rank_.gradients, state.layers[i]);
    layers_[i].done(rank_.gradients);
    progress();
  }
  rank_.gradients.end_action();
  in_flight_.release(microbatch);
}

}  // namespace plumbline::training
