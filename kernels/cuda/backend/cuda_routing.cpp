// The members of CudaOperators for MoE and latent attention.
#include <algorithm>
#include <vector>

#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {

void CudaOperators::route(const Router& router, Matrix logits, Matrix chosen, std::int64_t* counts) {
  std::vector<std::int32_t> found(static_cast<std::size_t>(logits.cols));
  if (!chosen.empty()) {
    auto* scratch = partials_.at_least<std::int32_t>(routing_scratch(router, logits.rows, logits.cols));
    choose_experts(queue_, router, logits, chosen);
    count_choices(queue_, chosen, logits.cols, true, scratch);
    if (router.capacity > 0) drop_choices(queue_, router, logits, chosen, scratch);
    download({scratch, 1, logits.cols, DType::int32}, found.data());
  }
  std::copy(found.begin(), found.end(), counts);
}

void CudaOperators::arrange(const Router& router, Matrix logits, Matrix chosen, Matrix places, Matrix tokens,
                            Matrix weights) {
  if (chosen.empty()) return;
  cuda::arrange(queue_, router, logits, chosen, places, tokens, weights,
                partials_.at_least<std::int32_t>(routing_scratch(router, logits.rows, logits.cols)));
}

void CudaOperators::route_backward(const Router& router, Matrix logits, Matrix chosen, Matrix places,
                                   Matrix dweights, Matrix dlogits) {
  if (chosen.empty()) return;
  if (router.balance == 0 || router.load.data != nullptr)
    return cuda::route_backward(queue_, router, logits, chosen, nullptr, places, dweights, dlogits);
  const std::int64_t together = router.balanced_tokens > 0 ? router.balanced_tokens : logits.rows;
  auto* counts = partials_.at_least<std::int32_t>(routing_scratch(router, together, logits.cols));
  for (std::int64_t first = 0; first < logits.rows; first += together) {
    const auto choices = [&](const Matrix& of_all) {
      return of_all.data == nullptr ? of_all : of_all.columns(first * router.top_k, together * router.top_k);
    };
    count_choices(queue_, choices(chosen), logits.cols, true, counts);
    cuda::route_backward(queue_, router, logits.row_range(first, together), choices(chosen), counts,
                         choices(places), places.data == nullptr ? choices(dweights) : dweights,
                         dlogits.row_range(first, together));
  }
}

void CudaOperators::join_heads(Matrix shared, Matrix own, std::int64_t heads, Matrix y) {
  cuda::join_heads(queue_, shared, own, heads, y);
}

void CudaOperators::split_heads(Matrix dy, std::int64_t heads, Matrix shared, Matrix own) {
  cuda::split_heads(queue_, dy, heads, shared, own);
}

void CudaOperators::sigmoid_forward(Matrix x, Matrix y) {
  cuda::sigmoid_forward(queue_, x, y);
}

void CudaOperators::sigmoid_backward(Matrix dy, Matrix y, Matrix dx) {
  cuda::sigmoid_backward(queue_, dy, y, dx);
}

void CudaOperators::scale_rows(Matrix x, Matrix factors, Matrix y) {
  cuda::scale_rows(queue_, x, factors, y);
}

void CudaOperators::combine_rows(Matrix x, Matrix places, bool accumulate, Matrix y) {
  cuda::combine_rows(queue_, x, places, accumulate, y);
}

}  // namespace plumbline::cuda
