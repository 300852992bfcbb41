#include "bench/training/layer/norm.hpp"

namespace plumbline::training {

void norm_forward(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  const Matrix& y, const Matrix& stats) {
  const double epsilon = context.model().norms.epsilon;
  if (context.model().norms.kind == Norm::rms) {
    context.operators.rmsnorm_forward(x, weight, y, stats, epsilon);
  } else {
    context.operators.layernorm_forward(x, weight, bias, y, stats.row_range(0, 1), stats.row_range(1, 1),
                                        epsilon);
  }
}

void added_norm_forward(const TrainingContext& context, const ResidualSum& added, const Matrix& weight,
                        const Matrix& bias, const Matrix& y, const Matrix& stats) {
  const double epsilon = context.model().norms.epsilon;
  if (context.model().norms.kind == Norm::rms) {
    context.operators.add_rmsnorm_forward(added, weight, y, stats, epsilon);
  } else {
    context.operators.add_layernorm_forward(added, weight, bias, y, stats.row_range(0, 1),
                                            stats.row_range(1, 1), epsilon);
  }
}

void norm_backward(const TrainingContext& context, const Matrix& dy, const Matrix& x, const Matrix& weight,
                   const Matrix& stats, const Matrix& residual, const Matrix& dx, const Matrix& dweight,
                   const Matrix& dbias) {
  if (context.model().norms.kind == Norm::rms) {
    context.operators.rmsnorm_backward(dy, x, weight, stats, residual, dx, dweight);
  } else {
    context.operators.layernorm_backward(dy, x, weight, stats.row_range(0, 1), stats.row_range(1, 1),
                                         residual, dx, dweight, dbias);
  }
}

}  // namespace plumbline::training
