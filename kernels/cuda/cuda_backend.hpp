// The class behind make_cuda_operators(): checks of shapes and types, then one call of kernels.hpp each.
#pragma once

#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/cudnn_attention.hpp"
#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/matmul.hpp"

namespace plumbline::cuda {

/// Of a type that kernels compute with: not ids, not masks.
inline bool is_element(const Matrix& x) {
  return x.dtype == DType::fp32 || x.dtype == DType::bf16 || x.dtype == DType::fp16;
}

/// A stream that is destroyed with its owner.
class Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaOperators final : public Operators {
 public:
  explicit CudaOperators(const CudaOptions& options);

  cudaStream_t stream() const { return stream_.get(); }
  int device() const { return device_; }

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  /// The formula of cudnn_slices.hpp, whether cuDNN is there or not.
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  /// One double of device memory, fetched once everything before is done.
  double fetch(const double* from);
  void norm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual, Matrix dx,
                     Matrix dw, Matrix db);

  int device_;
  Stream stream_;
  Queue queue_;
  DeviceBuffer partials_;
  MatmulCache matmul_;
  CudnnAttention cudnn_;
};

}  // namespace plumbline::cuda
