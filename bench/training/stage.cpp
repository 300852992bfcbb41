#include "bench/training/stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace plumbline::training {
namespace {

StagePart this_part(const RunConfig& config, const Communicator& communicator) {
  const Coordinates at = communicator.layout().coordinates(communicator.rank());
  return part_of(config, at.pipeline, at.tensor);
}

StageMemory allocate_memory(const TrainingContext& context, std::int64_t elements) {
  StageMemory memory;
  memory.values = context.make(Category::parameters, "parameters", 1, elements);
  memory.gradients =
      context.arena.allocate(Category::gradients, "gradients", 1, elements, context.config.grad_type());
  if (context.config.precision != DType::fp32) {
    memory.master = context.make_fp32(Category::optimizer, "master weights", 1, elements);
  }
  if (context.config.optimizer == Optimizer::adam) {
    memory.moment1 = context.make_fp32(Category::optimizer, "Adam first moment", 1, elements);
    memory.moment2 = context.make_fp32(Category::optimizer, "Adam second moment", 1, elements);
    context.operators.fill(memory.moment1, 0);
    context.operators.fill(memory.moment2, 0);
  }
  return memory;
}

}  // namespace

TransformerStage::TransformerStage(const RunConfig& config, Operators& operators, Communicator& communicator,
                                   Arena& arena)
    : config_(config),
      context_{config_, StageShape(config_), operators, communicator, arena, tensor_communication_},
      part_(this_part(config, communicator)),
      parameters_(stage_parameters(config, part_)),
      memory_(allocate_memory(context_, total_elements(parameters_))),
      shared_(make_shared_buffers(context_)),
      reducer_(communicator, memory_.gradients, config.ddp_bucket_size),
      global_tokens_(config.global_batch_size * config.seq_length) {
  for (std::int64_t layer = 0; layer < part_.layers; ++layer) {
    weights_.push_back(layer_weights(memory_.values, layer));
    gradients_.push_back(layer_weights(memory_.gradients, layer));
  }
  const std::int64_t rows = context_.shape.tokens;
  const std::int64_t hidden = context_.shape.hidden;
  const std::int64_t microbatches = config.microbatches();
  if (part_.first()) {
    inputs_ = arena.allocate(Category::workspace, "input tokens", microbatches, rows, DType::int32);
  }
  if (part_.last()) {
    targets_ = arena.allocate(Category::workspace, "target tokens", microbatches, rows, DType::int32);
  }
  if (!part_.last()) {
    send_forward_ = context_.make(Category::communication, "send-forward buffer", rows, hidden);
    receive_backward_ = context_.make(Category::communication, "receive-backward buffer", rows, hidden);
  }
  if (!part_.first()) {
    send_backward_ = context_.make(Category::communication, "send-backward buffer", rows, hidden);
  }
}

Matrix TransformerStage::view(const Tensor& flat, const Parameter& parameter) const {
  const Matrix& all = flat.matrix();
  return {all.at(0, parameter.offset), parameter.rows, parameter.cols, all.dtype};
}

const Parameter& TransformerStage::find(std::string_view role, std::int64_t layer) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.layer == layer && parameter.role == role) return parameter;
  }
  throw Error(fmt::format("no parameter {} of layer {} on stage {}", role, layer, part_.stage));
}

LayerWeights TransformerStage::layer_weights(const Tensor& flat, std::int64_t local_layer) const {
  const std::int64_t layer = part_.first_layer + local_layer;
  const auto get = [&](std::string_view role) { return view(flat, find(role, layer)); };
  const ModelConfig& model = config_.model;
  LayerWeights w;
  w.norm1 = get("norm1.weight");
  w.norm2 = get("norm2.weight");
  if (model.norm == Norm::layer) {
    w.norm1_bias = get("norm1.bias");
    w.norm2_bias = get("norm2.bias");
  }
  w.qkv = get("qkv.weight");
  w.proj = get("proj.weight");
  w.fc1 = get("fc1.weight");
  w.fc2 = get("fc2.weight");
  if (model.qkv_bias) w.qkv_bias = get("qkv.bias");
  if (model.linear_bias) {
    w.proj_bias = get("proj.bias");
    w.fc1_bias = get("fc1.bias");
    w.fc2_bias = get("fc2.bias");
  }
  return w;
}

std::string_view TransformerStage::output_role() const {
  return config_.model.tied_embeddings && part_.stages == 1 ? "embedding.weight" : "output.weight";
}

void TransformerStage::start_step(const std::int32_t* inputs, const std::int32_t* targets) {
  if (part_.first()) context_.operators.upload(inputs, inputs_);
  if (part_.last()) context_.operators.upload(targets, targets_);
  if (!gradients_clear_) context_.operators.fill(memory_.gradients, 0);
  gradients_clear_ = false;
  tensor_communication_ = {};
  reducer_.start_step();
  microbatches_done_ = 0;
  loss_sum_ = 0;
}

void TransformerStage::run(const Action& action) {
  switch (action.type) {
    case ActionType::forward:
      forward(action.microbatch);
      break;
    case ActionType::backward:
      backward(action.microbatch);
      break;
    case ActionType::reduce_gradients:
      reducer_.finish();
      break;
    case ActionType::reduce_embedding:
      reduce_tied_embedding();
      break;
    case ActionType::optimizer:
      optimizer_step();
      break;
    default:
      throw Error(fmt::format("action {} is not executable: this stage runs F, B, ARG, ARE and OPT",
                              to_string(action)));
  }
  context_.operators.synchronize();
}

Matrix TransformerStage::send_buffer(const Action& action) {
  return action.type == ActionType::send_forward ? send_forward_ : send_backward_;
}

Matrix TransformerStage::receive_buffer(const Action& action) {
  if (action.type == ActionType::receive_backward) return receive_backward_;
  MicrobatchState& state = in_flight_[action.microbatch];
  state.layers.resize(static_cast<std::size_t>(part_.layers));
  state.layers.front().input =
      context_.make(Category::activations, "layer input", context_.shape.tokens, context_.shape.hidden);
  return state.layers.front().input;
}

void TransformerStage::embed(std::uint32_t microbatch, const Matrix& output) {
  const Matrix tokens = inputs_.matrix().row_range(microbatch, 1);
  context_.operators.embedding_forward(tokens, weight("embedding.weight"),
                                       part_.tensor_rank * context_.shape.vocab, output);
  context_.reduce_over_tensor_ranks(output, ReduceOp::sum);
  if (config_.model.positions == Positions::learned) {
    context_.operators.position_forward(output, weight("positions.weight"), config_.seq_length);
  }
}

void TransformerStage::forward(std::uint32_t microbatch) {
  MicrobatchState& state = in_flight_[microbatch];
  state.layers.resize(static_cast<std::size_t>(part_.layers));
  const std::int64_t rows = context_.shape.tokens;
  const std::int64_t hidden = context_.shape.hidden;
  if (part_.first()) {
    state.layers.front().input = context_.make(Category::activations, "layer input", rows, hidden);
    embed(microbatch, state.layers.front().input);
  }
  for (std::size_t i = 0; i < state.layers.size(); ++i) {
    const bool ends_stage = i + 1 == state.layers.size();
    if (ends_stage && !part_.last()) {
      layer_forward(context_, shared_, weights_[i], state.layers[i], send_forward_);
      continue;
    }
    // Nothing is freed during a forward, so it does not matter for the peak that the output comes first.
    Tensor& next = ends_stage ? state.final_input : state.layers[i + 1].input;
    next = context_.make(Category::activations, "layer input", rows, hidden);
    layer_forward(context_, shared_, weights_[i], state.layers[i], next);
  }
  if (part_.last()) head_forward(microbatch, state);
}

void TransformerStage::head_forward(std::uint32_t microbatch, MicrobatchState& state) {
  Operators& ops = context_.operators;
  const StageShape& shape = context_.shape;
  const std::int64_t rows = shape.tokens;
  state.final_norm = context_.make(Category::activations, "final norm", rows, shape.hidden);
  state.final_stats =
      context_.make_fp32(Category::activations, "final norm statistics", shape.norm_stats, rows);
  const bool has_bias = config_.model.norm == Norm::layer;
  norm_forward(context_, state.final_input, weight("final_norm.weight"),
               has_bias ? weight("final_norm.bias") : Matrix(), state.final_norm, state.final_stats);
  state.logits = context_.make(Category::logits, "logits", rows, shape.vocab);
  ops.gemm({.a = state.final_norm, .b = weight(output_role()), .c = state.logits, .b_transposed = true});

  const Tensor statistics = context_.make_fp32(Category::workspace, "loss statistics", 3, rows);
  const Matrix row_max = statistics.matrix().row_range(0, 1);
  const Matrix sums = statistics.matrix().row_range(1, 2);
  const Matrix targets = targets_.matrix().row_range(microbatch, 1);
  const std::int64_t first_token = part_.tensor_rank * shape.vocab;
  const std::int64_t valid = std::clamp<std::int64_t>(config_.model.vocab - first_token, 0, shape.vocab);
  ops.cross_entropy_max(state.logits, valid, row_max);
  context_.reduce_over_tensor_ranks(row_max, ReduceOp::max);
  ops.cross_entropy_sums(state.logits, valid, first_token, targets, row_max, sums);
  context_.reduce_over_tensor_ranks(sums, ReduceOp::sum);
  loss_sum_ += ops.cross_entropy_gradient(state.logits, valid, first_token, targets, row_max, sums,
                                          1.0 / static_cast<double>(global_tokens_));
}

Tensor TransformerStage::output_layer_backward(MicrobatchState& state) {
  const StageShape& shape = context_.shape;
  Tensor dnorm = context_.make(Category::workspace, "gradient of final norm", shape.tokens, shape.hidden);
  context_.gemm_over_tensor_ranks({.a = state.logits, .b = weight(output_role()), .c = dnorm});
  context_.operators.gemm({.a = state.logits,
                           .b = state.final_norm,
                           .c = gradient(output_role()),
                           .a_transposed = true,
                           .accumulate = true});
  state.logits.reset();
  return dnorm;
}

void TransformerStage::final_norm_backward(MicrobatchState& state, const Matrix& dnorm,
                                           const Matrix& gradient_out) {
  const bool has_bias = config_.model.norm == Norm::layer;
  norm_backward(context_, dnorm, state.final_input, weight("final_norm.weight"), state.final_stats, {},
                gradient_out, gradient("final_norm.weight"),
                has_bias ? gradient("final_norm.bias") : Matrix());
  state.final_norm.reset();
  state.final_stats.reset();
  state.final_input.reset();
}

void TransformerStage::backward(std::uint32_t microbatch) {
  const auto found = in_flight_.find(microbatch);
  if (found == in_flight_.end()) {
    throw Error(
        fmt::format("backward of micro-batch {} before its forward on stage {}", microbatch, part_.stage));
  }
  MicrobatchState& state = found->second;
  const bool final_gradients = microbatches_done_ + 1 == config_.microbatches();
  // The gradient stream: see README.md. With one stage it is a tensor of this action.
  Tensor own;
  Matrix stream = part_.first() ? receive_backward_ : send_backward_;
  Matrix incoming = receive_backward_;
  if (part_.last()) {
    Tensor dnorm = output_layer_backward(state);
    if (part_.first()) {
      own =
          context_.make(Category::workspace, "gradient stream", context_.shape.tokens, context_.shape.hidden);
      stream = own;
    }
    final_norm_backward(state, dnorm, stream);
    dnorm.reset();
    incoming = stream;
    if (final_gradients) reducer_.final_from(find("final_norm.weight", -1).offset);
  }
  for (std::size_t i = state.layers.size(); i-- > 0;) {
    layer_backward(context_, shared_, weights_[i], gradients_[i], state.layers[i], incoming, stream);
    incoming = stream;
    if (final_gradients) {
      reducer_.final_from(find("norm1.weight", part_.first_layer + static_cast<std::int64_t>(i)).offset);
    }
  }
  if (part_.first()) {
    if (config_.model.positions == Positions::learned) {
      context_.operators.position_backward(stream, gradient("positions.weight"), config_.seq_length);
    }
    context_.operators.embedding_backward(inputs_.matrix().row_range(microbatch, 1), stream,
                                          part_.tensor_rank * context_.shape.vocab,
                                          gradient("embedding.weight"));
  }
  in_flight_.erase(found);
  ++microbatches_done_;
}

}  // namespace plumbline::training
