// The class behind make_cuda_operators(): one call of kernels.hpp each, with arguments that were checked.
#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/attention/cudnn_attention.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/device/device_buffer.hpp"
#include "kernels/cuda/device/host_numbers.hpp"
#include "kernels/cuda/gemm/matmul.hpp"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {

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

class CudaOperators : public Operators {
 public:
  explicit CudaOperators(const CudaOptions& options);

  cudaStream_t stream() const { return stream_.get(); }
  int device() const { return device_; }
  int multiprocessors() const { return queue_.multiprocessors; }
  void count_on(int multiprocessors) { matmul_.count_on(multiprocessors); }
  /// As cuda_side_stream() and run_on_side_stream().
  cudaStream_t side_stream();
  void run_on_side_stream(const std::function<void()>& work);
  /// As cuda_choices().
  std::vector<KernelChoice> choices() const;

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  /// The formula of cudnn_slices.hpp, with or without cuDNN.
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  /// A second stream, with scratch of its own: kernels of both run at the same time.
  struct Side {
    explicit Side(int device) : stream(device), partials(stream.get()), numbers(stream.get()) {}
    Stream stream;
    DeviceBuffer partials;
    HostNumbers numbers;
  };
  /// Exchanges stream, scratch and numbers with the side stream's.
  void swap_with_side();
  /// gemm without the bias gradient, arguments checked.
  void product(const Gemm& gemm);
  /// Both; the bias gradient in cuBLASLt's epilogue if MatmulCache::run_with_column_sums() does it, else in a
  /// kernel.
  void weight_and_bias_gradient(const Gemm& gemm);
  void norm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual, Matrix dx,
                     Matrix dw, Matrix db);

  int device_;
  Stream stream_;
  Queue queue_;
  DeviceBuffer partials_;
  HostNumbers numbers_;
  MatmulCache matmul_;
  CudnnAttention cudnn_;
  std::unique_ptr<Side> side_;
};

}  // namespace plumbline::cuda
