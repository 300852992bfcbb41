#include "bench/training/context.hpp"

namespace plumbline::training {

void TrainingContext::gemm_over_tensor_ranks(Gemm gemm) const {
  if (tensor_size() == 1 || gemm.c.dtype == DType::fp32) {
    operators.gemm(gemm);
    sum_over_tensor_ranks(gemm.c);
    return;
  }
  const Matrix result = gemm.c;
  const Tensor partial =
      make_fp32(Category::workspace, "tensor-parallel partial sums", result.rows, result.cols);
  gemm.c = partial;
  operators.gemm(gemm);
  sum_over_tensor_ranks(partial);
  operators.copy(partial, result);
}

}  // namespace plumbline::training
