// The members of CudaOperators for the cross-entropy of vocabulary parallelism.
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
void CudaOperators::vocab_softmax(Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  cuda::vocab_softmax(queue_, logits, valid, row_max, row_sum);
}

Number CudaOperators::vocab_combine(Matrix gathered, Matrix targets, std::int64_t columns, std::int64_t own,
                                    Matrix alpha) {
  const std::int64_t tokens = gathered.cols;
  auto* losses = partials_.at_least<double>(tokens + 1);
  cuda::vocab_combine(queue_, gathered, targets, columns, own, alpha, losses, losses + tokens);
  return numbers_.fetch(losses + tokens);
}

void CudaOperators::vocab_gradient(Matrix softmax, std::int64_t valid, std::int64_t first_token,
                                   Matrix targets, Matrix alpha, double scale) {
  cuda::vocab_gradient(queue_, softmax, valid, first_token, targets, alpha, static_cast<float>(scale));
}

void CudaOperators::vocab_input_gradient(Matrix product, Matrix table, std::int64_t first_token,
                                         Matrix targets, Matrix alpha, double scale) {
  cuda::vocab_input_gradient(queue_, product, table, first_token, targets, alpha, static_cast<float>(scale));
}

}  // namespace plumbline::cuda
