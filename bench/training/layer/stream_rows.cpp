#include "bench/training/layer/stream_rows.hpp"

#include <utility>

namespace plumbline::training {

StreamRows::StreamRows(const TrainingContext& context, const LinearOperand& x, bool whole)
    : context_(context), own_(x) {
  if (!context.tensor_overlap) {
    all_ = gather_rows(context, x);
    return;
  }
  const Matrix own = x.values();
  Tensor held = context.arena.allocate(Category::workspace, "gathered sequence", context.shape.tokens,
                                       context.shape.hidden, own.dtype);
  const auto place = [&](int rank) { return held.matrix().row_range(rank * own.rows, own.rows); };
  const int mine = context.tensor_rank();
  travelling_.reserve(static_cast<std::size_t>(context.tensor_size()));
  for (int rank = 0; rank < context.tensor_size(); ++rank) {
    travelling_.push_back(context.communicator.start_broadcast(Group::tensor, context.world_rank(rank),
                                                               rank == mine ? own : place(rank)));
  }
  if (whole) context.operators.copy(own, place(mine));
  all_ = LinearOperand(std::move(held), x.inverse_scale());
}

void StreamRows::by_blocks(Gemm product, const Matrix& y) {
  const std::int64_t rows = own_.values().rows;
  const auto multiply_block = [&](int rank, const Matrix& block) {
    product.a = block;
    product.c = y.row_range(rank * rows, rows);
    context_.operators.gemm(product);
  };
  const int mine = context_.tensor_rank();
  multiply_block(mine, own_.values());
  for (int rank = 0; rank < context_.tensor_size(); ++rank) {
    context_.wait_for_tensor_ranks(travelling_[static_cast<std::size_t>(rank)]);
    if (rank != mine) multiply_block(rank, all_.values().row_range(rank * rows, rows));
  }
}

void StreamRows::multiply(const LinearWeight& weight, const Matrix& bias, const Matrix& y) {
  if (travelling_.empty()) return linear(context_, all_, weight, bias, y);
  LinearProduct product = forward_product(own_, weight, y);
  product.gemm.bias = bias;
  by_blocks(product.gemm, y);
}

void StreamRows::multiply_for_input_gradient(const LinearWeight& weight, const Matrix& dx) {
  if (travelling_.empty()) return linear_input_gradient(context_, all_, weight, dx);
  by_blocks(input_gradient_product(own_, weight, dx).gemm, dx);
}

namespace {

/// `features`: the gradient of the adapter's.
void adapted_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                            const LinearWeight& weight, const Matrix& features, const Matrix& dx) {
  context.sum_over_tensor_ranks(dx, [&](const Matrix& partial) {
    linear_input_gradient(context, dy, weight, partial);
    adapt_input_gradient(context, features, weight.adapter, partial);
  });
}

void frozen_linear_backward(const TrainingContext& context, const LinearOperand& x, const LinearOperand& dy,
                            const LinearWeight& weight, const Matrix& dx, const Adapter& gradient) {
  const Adapter& adapter = weight.adapter;
  if (adapter.empty() && dx.empty()) return;
  if (adapter.empty()) return linear_input_gradient_over_tensor_ranks(context, dy, weight, dx);
  Tensor features = feature_gradient(context, dy.values(), adapter);
  if (!dx.empty()) adapted_input_gradient(context, dy, weight, features, dx);
  const LinearOperand rows = gather_rows(context, x);
  adapter_gradients(context, dy.values(), rows.values(), adapter, std::move(features), gradient);
}

}  // namespace

void stream_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                           const LinearWeight& weight, const Matrix& dx) {
  if (weight.adapter.empty()) return linear_input_gradient_over_tensor_ranks(context, dy, weight, dx);
  const Tensor features = feature_gradient(context, dy.values(), weight.adapter);
  adapted_input_gradient(context, dy, weight, features, dx);
}

void linear_output_gradients(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                             const LinearWeight& weight, const Matrix& dx, const LinearGradient& gradient,
                             const Matrix& wide_dy, const Matrix& dbias) {
  if (!context.frozen) return linear_weight_gradient(context, dy, x, gradient.weight, wide_dy, dbias);
  if (weight.adapter.empty()) return;
  Tensor features = feature_gradient(context, dy.values(), weight.adapter);
  adapt_input_gradient(context, features, weight.adapter, dx);
  adapter_gradients(context, dy.values(), x.values(), weight.adapter, std::move(features), gradient.adapter);
}

void linear_backward(const TrainingContext& context, const LinearOperand& x, const LinearOperand& dy,
                     const LinearWeight& weight, const Matrix& dx, const LinearGradient& dweight,
                     const Matrix& wide_dy, const Matrix& dbias) {
  if (context.frozen) return frozen_linear_backward(context, x, dy, weight, dx, dweight.adapter);
  if (!context.tensor_overlap) {
    linear_input_gradient_over_tensor_ranks(context, dy, weight, dx);
    const LinearOperand rows = gather_rows(context, x);
    return linear_weight_gradient(context, dy, rows, dweight.weight, wide_dy, dbias);
  }
  const Tensor held = context.arena.allocate(Category::workspace, "gathered sequence", context.shape.tokens,
                                             context.shape.hidden, x.values().dtype);
  Ticket gathered = context.communicator.start_all_gather(Group::tensor, x.values(), held);
  const Tensor partial = context.arena.allocate(Category::workspace, "tensor-parallel partial sums",
                                                context.shape.tokens, dx.cols, context.sum_type());
  linear_input_gradient(context, dy, weight, partial);
  context.wait_for_tensor_ranks(gathered);
  const bool rounds = dx.dtype != context.sum_type();
  Tensor piece;
  if (rounds) piece = context.make_fp32(Category::workspace, "tensor-parallel sums", dx.rows, dx.cols);
  Ticket scattered =
      context.communicator.start_reduce_scatter(Group::tensor, partial, rounds ? piece.matrix() : dx);
  linear_weight_gradient(context, dy, LinearOperand(held.matrix(), x.inverse_scale()), dweight.weight,
                         wide_dy, dbias);
  context.wait_for_tensor_ranks(scattered);
  if (rounds) context.operators.copy(piece, dx);
}

}  // namespace plumbline::training
