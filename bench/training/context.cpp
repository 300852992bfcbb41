#include "bench/training/context.hpp"

namespace plumbline::training {

void TrainingContext::reduce_over_tensor_ranks(const Matrix& x, ReduceOp op) const {
  if (tensor_size() == 1) return;
  const Seconds start = communicator.now();
  communicator.all_reduce(Group::tensor, x, op);
  tensor_communication += communicator.now() - start;
}

void TrainingContext::gemm_over_tensor_ranks(Gemm gemm) const {
  if (tensor_size() == 1 || gemm.c.dtype == DType::fp32) {
    operators.gemm(gemm);
    reduce_over_tensor_ranks(gemm.c, ReduceOp::sum);
    return;
  }
  const Matrix result = gemm.c;
  const Tensor partial =
      make_fp32(Category::workspace, "tensor-parallel partial sums", result.rows, result.cols);
  gemm.c = partial;
  operators.gemm(gemm);
  reduce_over_tensor_ranks(partial, ReduceOp::sum);
  operators.copy(partial, result);
}

}  // namespace plumbline::training
