// Mixtures of experts: no kernels yet. why_unsupported refuses such a run before it comes here.
#include <string>

#include "core/base/error.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

[[noreturn]] void throw_no_mixtures(const char* op) {
  throw Error(std::string(op) +
              ": mixtures of experts have no CUDA kernels; expected backend cpu or emulated");
}

}  // namespace

void CudaOperators::route(const Router& /*router*/, Matrix /*logits*/, Matrix /*chosen*/,
                          std::int64_t* /*counts*/) {
  throw_no_mixtures("route");
}
void CudaOperators::arrange(const Router& /*router*/, Matrix /*logits*/, Matrix /*chosen*/, Matrix /*places*/,
                            Matrix /*tokens*/, Matrix /*weights*/) {
  throw_no_mixtures("arrange");
}
void CudaOperators::route_backward(const Router& /*router*/, Matrix /*logits*/, Matrix /*chosen*/,
                                   Matrix /*places*/, Matrix /*dweights*/, Matrix /*dlogits*/) {
  throw_no_mixtures("route_backward");
}
void CudaOperators::join_heads(Matrix /*shared*/, Matrix /*own*/, std::int64_t /*heads*/, Matrix /*y*/) {
  throw_no_mixtures("join_heads");
}
void CudaOperators::split_heads(Matrix /*dy*/, std::int64_t /*heads*/, Matrix /*shared*/, Matrix /*own*/) {
  throw_no_mixtures("split_heads");
}
void CudaOperators::sigmoid_forward(Matrix /*x*/, Matrix /*y*/) {
  throw_no_mixtures("sigmoid_forward");
}
void CudaOperators::sigmoid_backward(Matrix /*dy*/, Matrix /*y*/, Matrix /*dx*/) {
  throw_no_mixtures("sigmoid_backward");
}
void CudaOperators::scale_rows(Matrix /*x*/, Matrix /*factors*/, Matrix /*y*/) {
  throw_no_mixtures("scale_rows");
}
void CudaOperators::combine_rows(Matrix /*x*/, Matrix /*places*/, Matrix /*y*/) {
  throw_no_mixtures("combine_rows");
}

}  // namespace plumbline::cuda
