// The end of a step: reductions beyond the data-parallel one, gradient clipping, the parameter update.
#include <cmath>

#include "bench/training/stage.hpp"

namespace plumbline::training {

void TransformerStage::reduce_tied_embedding() {
  const Matrix own = gradient(part_.first() ? "embedding.weight" : "output.weight");
  context_.communicator.all_reduce(Group::embedding, Matrix(own.data, 1, own.elements(), own.dtype),
                                   ReduceOp::sum);
}

// With fewer KV heads than tensor ranks, `sharing` neighbours hold the same head and each has seen only its
// own query heads: the gradient of the head is the sum over them.
void TransformerStage::reduce_shared_kv_heads() {
  const std::int64_t t = context_.tensor_size();
  const std::int64_t kv_heads = config_.model.kv_heads;
  if (kv_heads >= t) return;
  const std::int64_t sharing = t / kv_heads;
  const StageShape& shape = context_.shape;
  const std::int64_t width = shape.hidden + (config_.model.qkv_bias ? 1 : 0);
  const std::int64_t elements = 2 * shape.key * width;
  const std::int64_t first_sharer = part_.tensor_rank / sharing * sharing;
  for (LayerWeights& layer : gradients_) {
    const Tensor all =
        context_.arena.allocate(Category::workspace, "shared KV gradients", t, elements, config_.grad_type());
    const Matrix rows = layer.qkv.row_range(shape.query, 2 * shape.key);
    const Matrix weight(rows.data, 1, rows.elements(), rows.dtype);
    Matrix bias;
    if (config_.model.qkv_bias) {
      bias = layer.qkv_bias.columns(shape.query, 2 * shape.key);
      bias.stride = bias.cols;
    }
    const auto place = [&](std::int64_t rank, bool of_bias) {
      const Matrix row = all.matrix().row_range(rank, 1);
      Matrix part = of_bias ? row.columns(weight.cols, bias.cols) : row.columns(0, weight.cols);
      part.stride = part.cols;
      return part;
    };
    context_.operators.fill(all, 0);
    context_.operators.copy(weight, place(part_.tensor_rank, false));
    if (!bias.empty()) context_.operators.copy(bias, place(part_.tensor_rank, true));
    context_.communicator.all_reduce(
        Group::tensor, Matrix(all.matrix().data, 1, t * elements, config_.grad_type()), ReduceOp::sum);
    context_.operators.copy(place(first_sharer, false), weight);
    if (!bias.empty()) context_.operators.copy(place(first_sharer, true), bias);
    for (std::int64_t i = 1; i < sharing; ++i) {
      context_.operators.add(weight, place(first_sharer + i, false), {}, weight);
      if (!bias.empty()) context_.operators.add(bias, place(first_sharer + i, true), {}, bias);
    }
  }
}

double TransformerStage::global_gradient_norm() {
  // Every element of the model counts once: replicated parameters on tensor rank 0, shared KV heads on their
  // first holder, the tied embedding on the first stage.
  const std::int64_t t = context_.tensor_size();
  const std::int64_t sharing = config_.model.kv_heads < t ? t / config_.model.kv_heads : 1;
  const bool owns_kv = part_.tensor_rank % sharing == 0;
  double sum = 0;
  for (const Parameter& parameter : parameters_) {
    if ((parameter.replicated && part_.tensor_rank != 0) || parameter.tied_copy) continue;
    Matrix gradients = view(memory_.gradients, parameter);
    if (!owns_kv && parameter.role == "qkv.weight") gradients = gradients.row_range(0, context_.shape.query);
    if (!owns_kv && parameter.role == "qkv.bias") gradients = gradients.columns(0, context_.shape.query);
    sum += context_.operators.squared_norm(gradients);
  }
  float total = static_cast<float>(sum);
  context_.communicator.all_reduce(Group::model, Matrix(&total, 1, 1, DType::fp32), ReduceOp::sum);
  return std::sqrt(static_cast<double>(total));
}

void TransformerStage::optimizer_step() {
  reduce_shared_kv_heads();
  gradient_norm_ = global_gradient_norm();
  ++optimizer_steps_;
  double gradient_scale = 1;
  if (config_.clip_grad > 0 && gradient_norm_ > config_.clip_grad)
    gradient_scale = config_.clip_grad / gradient_norm_;

  // Neighbouring parameters that decay alike are updated in one call.
  for (std::size_t i = 0; i < parameters_.size();) {
    std::size_t end = i + 1;
    while (end < parameters_.size() && parameters_[end].decays == parameters_[i].decays) ++end;
    const std::int64_t first = parameters_[i].offset;
    const std::int64_t count = parameters_[end - 1].end() - first;
    const auto run_of = [&](const Tensor& flat) {
      return flat ? Matrix(flat.matrix().at(0, first), 1, count, flat.matrix().dtype) : Matrix();
    };
    const Matrix values = run_of(memory_.values);
    const Matrix gradients = run_of(memory_.gradients);
    const Matrix master = run_of(memory_.master);
    if (config_.optimizer == Optimizer::adam) {
      AdamStep step;
      step.learning_rate = config_.learning_rate;
      step.weight_decay = parameters_[i].decays ? config_.weight_decay : 0;
      step.gradient_scale = gradient_scale;
      step.step = optimizer_steps_;
      context_.operators.adam(values, gradients, master, run_of(memory_.moment1), run_of(memory_.moment2),
                              step);
    } else {
      context_.operators.sgd(values, gradients, master, config_.learning_rate, gradient_scale);
    }
    i = end;
  }
  if (!keep_gradients_) context_.operators.fill(memory_.gradients, 0);
  gradients_clear_ = !keep_gradients_;
}

}  // namespace plumbline::training
