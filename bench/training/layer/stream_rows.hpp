// All rows of a tensor of the residual stream, for the products of a layer (bench/training/overlap.md).
#pragma once

#include <vector>

#include "bench/training/linear/linear.hpp"

namespace plumbline::training {

/// Gathered at once; with tensor_overlap on their way from the tensor ranks, block after block, while
/// products of received blocks are computed. Without sequence parallelism the tensor itself.
class StreamRows {
 public:
  /// `x` (R, h) must outlive it. `whole`: all() is asked for.
  StreamRows(const TrainingContext& context, const LinearOperand& x, bool whole);
  StreamRows(const StreamRows&) = delete;
  StreamRows& operator=(const StreamRows&) = delete;

  /// y = x·Wᵀ [+ bias], all T rows.
  void multiply(const LinearWeight& weight, const Matrix& bias, const Matrix& y);
  /// dx = x·W: x is the gradient of a layer's output.
  void multiply_for_input_gradient(const LinearWeight& weight, const Matrix& dx);
  /// After one of these: all T rows.
  const LinearOperand& all() const { return all_; }
  void reset() { all_.reset(); }

 private:
  void by_blocks(Gemm product, const Matrix& y);

  const TrainingContext& context_;
  const LinearOperand& own_;
  LinearOperand all_;
  std::vector<Ticket> travelling_;  // of every tensor rank; empty: all rows are there
};

/// Gradients of a row-parallel layer besides dx = dy·W, which is there: its weight's, and its bias's, or its
/// adapter's, whose part of dx (T, in) is added. All rows of dy (T, h) and x (T, in).
void linear_output_gradients(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                             const LinearWeight& weight, const Matrix& dx, const LinearGradient& gradient,
                             const Matrix& wide_dy, const Matrix& dbias);

/// dx (R, h) = dy·W, and the adapter's part of it, summed over the tensor ranks.
void stream_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                           const LinearWeight& weight, const Matrix& dx);

/// Both gradients of a layer's product y = x·Wᵀ + b that reads the stream: dx (R, h) from dy (T, out),
/// summed over the tensor ranks; dW += dyᵀ·x; dbias += column sums of `wide_dy`. dy may be `wide_dy`
/// quantized. With tensor_overlap x is gathered during the first product and the sum scattered during the
/// second. Of a frozen weight only the adapter's gradients.
void linear_backward(const TrainingContext& context, const LinearOperand& x, const LinearOperand& dy,
                     const LinearWeight& weight, const Matrix& dx, const LinearGradient& dweight,
                     const Matrix& wide_dy, const Matrix& dbias);

}  // namespace plumbline::training
