// The backward of a stage, whole or as its two halves.
#include "bench/training/stage/stage.hpp"

#include <utility>

#include "bench/training/stage/layer_use.hpp"

namespace plumbline::training {

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
  return output_ && rank_.context.config.parallel.pp.defer_embedding_wgrad_compute;
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
