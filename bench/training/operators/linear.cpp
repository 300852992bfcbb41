#include "bench/training/operators/linear.hpp"

#include "bench/training/layer/stream_rows.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

LinearOperand quantized_gradient(const Pass& pass, const LayerLinear& of, Slot dy) {
  return of.fp8->gradient.read(pass[dy], of.quantized_gradient);
}

LinearGradient gradient_of(const LayerLinear& of, const LayerMatrices& all) {
  return {all.*of.matrix, all.adapters.*of.adapter};
}

/// As the product reads it; quantized by the operator that made it, or here.
LinearOperand input_of(const Pass& pass, const LayerLinear& of, Slot x) {
  const LinearOperand& operand = pass.operand(x);
  if (operand.quantized()) return LinearOperand(operand.values(), operand.inverse_scale());
  return of.fp8->input.read(operand.values(), "quantized attention");
}

/// False of a frozen layer without an adapter.
bool trains(const Pass& pass, const LayerLinear& of) {
  return !pass.context.frozen || !(of.layer->adapter_values().*of.adapter).empty();
}

/// Weight gradients in an action of their own, or those of an adapter. All rows of dy and x.
void weight_gradients(Pass& pass, const LayerLinear& of, const LayerMatrices& gradients,
                      const LinearOperand& dy, const LinearOperand& x, const Matrix& wide_dy) {
  if (!pass.context.frozen)
    return linear_weight_gradient(pass.context, dy, x, gradients.*of.matrix, wide_dy, of.bias_gradient);
  const Adapter& adapter = of.layer->adapter_values().*of.adapter;
  adapter_gradients(pass.context, dy.values(), x.values(), adapter,
                    feature_gradient(pass.context, dy.values(), adapter), gradients.adapters.*of.adapter);
}

void column_gradients(Pass& pass, const LayerLinear& of, Slot x, Slot dy, Slot dx) {
  const LayerMatrices gradients = pass.open(*of.layer);
  const LinearOperand operand = quantized_gradient(pass, of, dy);
  const Matrix to = dx ? pass.make_stream(dx) : Matrix();
  linear_backward(pass.context, pass.operand(x), operand, pass.weights().*of.weight, to,
                  gradient_of(of, gradients), pass[dy], of.bias_gradient);
}

void column_input_gradient(Pass& pass, const LayerLinear& of, Slot dy, Slot dx) {
  if (!dx) return;
  const LinearOperand operand = quantized_gradient(pass, of, dy);
  stream_input_gradient(pass.context, operand, pass.weights().*of.weight, pass.make_stream(dx));
}

void column_weight_gradient(Pass& pass, const LayerLinear& of, Slot x, Slot dy) {
  const LayerMatrices gradients = pass.open(*of.layer);
  if (!trains(pass, of)) return;
  const LinearOperand operand = quantized_gradient(pass, of, dy);
  const LinearOperand rows = gather_rows(pass.context, pass.operand(x));
  weight_gradients(pass, of, gradients, operand, rows, pass[dy]);
}

Matrix make_input_gradient(Pass& pass, const LayerLinear& of, Slot dx) {
  return pass.make(dx, pass.context.shape.tokens, pass.context.shape.*of.width);
}

void row_gradients(Pass& pass, const LayerLinear& of, Slot x, Slot dy, Slot dx) {
  const LinearWeight& weight = pass.weights().*of.weight;
  const LinearOperand own = quantized_gradient(pass, of, dy);
  StreamRows rows(pass.context, own, true);
  const Matrix to = make_input_gradient(pass, of, dx);
  rows.multiply_for_input_gradient(weight, to);
  const LayerMatrices gradients = pass.open(*of.layer);
  linear_output_gradients(pass.context, rows.all(), input_of(pass, of, x), weight, to,
                          gradient_of(of, gradients), pass[dy], of.bias_gradient);
}

void row_input_gradient(Pass& pass, const LayerLinear& of, Slot dy, Slot dx) {
  const LinearOperand own = quantized_gradient(pass, of, dy);
  StreamRows rows(pass.context, own, false);
  const LinearWeight& weight = pass.weights().*of.weight;
  const Matrix to = make_input_gradient(pass, of, dx);
  rows.multiply_for_input_gradient(weight, to);
  if (weight.adapter.empty()) return;
  const Tensor features = feature_gradient(pass.context, rows.all().values(), weight.adapter);
  adapt_input_gradient(pass.context, features, weight.adapter, to);
}

void row_weight_gradient(Pass& pass, const LayerLinear& of, Slot x, Slot dy) {
  const LayerMatrices gradients = pass.open(*of.layer);
  if (!trains(pass, of)) return;
  const LinearOperand own = quantized_gradient(pass, of, dy);
  const LinearOperand rows = gather_rows(pass.context, own);
  weight_gradients(pass, of, gradients, rows, input_of(pass, of, x), pass[dy]);
}

}  // namespace

LayerLinear qkv_linear(const Layer& layer) {
  return {.layer = &layer,
          .weight = &LayerWeights::qkv,
          .matrix = &LayerMatrices::qkv,
          .adapter = &LayerAdapters::qkv,
          .fp8 = &layer.fp8.qkv,
          .bias = layer.values.qkv_bias,
          .bias_gradient = layer.gradients.qkv_bias,
          .width = &LayerWidths::qkv,
          .holder = "layer qkv",
          .gradient = "gradient of norm1",
          .quantized_gradient = "quantized gradient of qkv"};
}

LayerLinear projection(const Layer& layer) {
  return {.layer = &layer,
          .weight = &LayerWeights::proj,
          .matrix = &LayerMatrices::proj,
          .adapter = &LayerAdapters::proj,
          .fp8 = &layer.fp8.proj,
          .bias = layer.values.proj_bias,
          .bias_gradient = layer.gradients.proj_bias,
          .width = &LayerWidths::attended,
          .holder = "layer result",
          .gradient = "gradient of attention",
          .quantized_gradient = "quantized gradient of attention block"};
}

LayerLinear fc1_linear(const Layer& layer) {
  return {.layer = &layer,
          .weight = &LayerWeights::fc1,
          .matrix = &LayerMatrices::fc1,
          .adapter = &LayerAdapters::fc1,
          .fp8 = &layer.fp8.fc1,
          .bias = layer.values.fc1_bias,
          .bias_gradient = layer.gradients.fc1_bias,
          .width = &LayerWidths::fc1,
          .holder = "layer fc1",
          .gradient = "gradient of norm2",
          .quantized_gradient = "quantized gradient of fc1"};
}

LayerLinear fc2_linear(const Layer& layer) {
  return {.layer = &layer,
          .weight = &LayerWeights::fc2,
          .matrix = &LayerMatrices::fc2,
          .adapter = &LayerAdapters::fc2,
          .fp8 = &layer.fp8.fc2,
          .bias = layer.values.fc2_bias,
          .bias_gradient = layer.gradients.fc2_bias,
          .width = &LayerWidths::ffn,
          .holder = "layer result",
          .gradient = "gradient of activation",
          .quantized_gradient = "quantized gradient of MLP"};
}

Slot column_linear(Tape& tape, const LayerLinear& of, Slot x, bool repeats) {
  const Slot y = tape.slot(of.holder);
  const auto forward = [=](Pass& pass) {
    const LayerWidths& shape = pass.context.shape;
    StreamRows rows(pass.context, pass.operand(x), false);
    rows.multiply(pass.weights().*of.weight, of.bias, pass.make(y, shape.tokens, shape.*of.width));
  };
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(y);
    const Slot dx = reverse.wanted(x) ? reverse.make(x, of.gradient) : Slot();
    reverse.product(dy, x, dx,
                    {[=](Pass& pass) { column_gradients(pass, of, x, dy, dx); },
                     [=](Pass& pass) { column_input_gradient(pass, of, dy, dx); },
                     [=](Pass& pass) { column_weight_gradient(pass, of, x, dy); }});
  };
  tape.add(
      {.forward = {.reads = {x}, .makes = {y}, .run = forward}, .backward = backward, .repeats = repeats});
  return y;
}

Slot row_linear(Tape& tape, const LayerLinear& of, Slot x, Slot place, bool beside) {
  const Slot y = beside ? tape.slot(of.holder) : tape.overwritten(place);
  const auto forward = [=](Pass& pass) {
    const LinearOperand input = input_of(pass, of, x);
    linear_over_tensor_ranks(pass.context, input, pass.weights().*of.weight,
                             beside ? pass.make_stream(y) : pass[place]);
  };
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(y);
    const Slot dx = reverse.make(x, of.gradient);
    reverse.product(dy, x, dx,
                    {[=](Pass& pass) { row_gradients(pass, of, x, dy, dx); },
                     [=](Pass& pass) { row_input_gradient(pass, of, dy, dx); },
                     [=](Pass& pass) { row_weight_gradient(pass, of, x, dy); }});
  };
  tape.add({.forward = {.reads = {x, place}, .makes = {y}, .run = forward}, .backward = backward});
  return y;
}

}  // namespace plumbline::training
