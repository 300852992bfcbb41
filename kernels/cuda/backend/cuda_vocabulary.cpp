// The members of CudaOperators for the cross-entropy of vocabulary parallelism.
#include "kernels/checks.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

constexpr std::int64_t kRowsPerShard = 3;

}  // namespace

void CudaOperators::vocab_softmax(Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) &&
              is_row(row_sum, logits, DType::fp32),
          "vocab_softmax", "logits (T,n) with valid <= n, row_max and row_sum (1,T) fp32",
          {{"logits", logits}, {"row_max", row_max}, {"row_sum", row_sum}});
  cuda::vocab_softmax(queue_, logits, valid, row_max, row_sum);
}

Number CudaOperators::vocab_combine(Matrix gathered, Matrix targets, std::int64_t columns, std::int64_t own,
                                    Matrix alpha) {
  const std::int64_t tokens = gathered.cols;
  require(gathered.dtype == DType::fp32 && gathered.rows % kRowsPerShard == 0 && columns > 0 && own >= 0 &&
              own < gathered.rows / kRowsPerShard && has_shape(targets, 1, tokens, DType::int32) &&
              has_shape(alpha, 1, tokens, DType::fp32),
          "vocab_combine", "gathered (3N,T) fp32, targets (1,T) int32, 0 <= own < N, alpha (1,T) fp32",
          {{"gathered", gathered}, {"targets", targets}, {"alpha", alpha}});
  auto* losses = partials_.at_least<double>(tokens + 1);
  cuda::vocab_combine(queue_, gathered, targets, columns, own, alpha, losses, losses + tokens);
  return numbers_.fetch(losses + tokens);
}

void CudaOperators::vocab_gradient(Matrix softmax, std::int64_t valid, std::int64_t first_token,
                                   Matrix targets, Matrix alpha, double scale) {
  require(is_logits(softmax, valid) && is_row(targets, softmax, DType::int32) &&
              is_row(alpha, softmax, DType::fp32),
          "vocab_gradient", "softmax (T,n) with valid <= n, targets (1,T) int32, alpha (1,T) fp32",
          {{"softmax", softmax}, {"targets", targets}, {"alpha", alpha}});
  cuda::vocab_gradient(queue_, softmax, valid, first_token, targets, alpha, static_cast<float>(scale));
}

void CudaOperators::vocab_input_gradient(Matrix product, Matrix table, std::int64_t first_token,
                                         Matrix targets, Matrix alpha, double scale) {
  require(
      product.dtype == DType::fp32 && is_storage(table) && table.cols == product.cols &&
          (first_token != kRowPerToken || table.rows == product.rows) &&
          is_row(targets, product, DType::int32) && is_row(alpha, product, DType::fp32),
      "vocab_input_gradient",
      "product (T,h) fp32, table (n,h) or with a row per token (T,h), targets (1,T) int32, alpha (1,T) fp32",
      {{"product", product}, {"table", table}, {"targets", targets}, {"alpha", alpha}});
  cuda::vocab_input_gradient(queue_, product, table, first_token, targets, alpha, static_cast<float>(scale));
}

}  // namespace plumbline::cuda
