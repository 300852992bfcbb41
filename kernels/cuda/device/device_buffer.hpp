// A piece of device memory that grows when more is asked of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/device/error.hpp"

namespace plumbline::cuda {

class DeviceBuffer {
 public:
  explicit DeviceBuffer(cudaStream_t stream) : stream_(stream) {}
  ~DeviceBuffer() {
    if (data_ != nullptr) static_cast<void>(cudaFreeAsync(data_, stream_));
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void swap(DeviceBuffer& other) {
    std::swap(stream_, other.stream_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  /// Room for `count` elements, contents undefined. Memory returned by an earlier call is gone for work
  /// submitted to the stream from now on.
  template <class T>
  T* at_least(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      if (data_ != nullptr) PLUMBLINE_CUDA(cudaFreeAsync(data_, stream_));
      data_ = nullptr;
      bytes_ = 0;
      PLUMBLINE_CUDA(cudaMallocAsync(&data_, bytes, stream_));
      bytes_ = bytes;
    }
    return static_cast<T*>(data_);
  }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace plumbline::cuda
