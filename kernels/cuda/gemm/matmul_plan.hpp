// Parts of a product's plan: cuBLASLt's descriptors, an algorithm, and the clock that compares two.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "kernels/cuda/device/error.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

/// NVIDIA's recommendation for Hopper; older devices want 4 MiB.
constexpr Bytes kWorkspace = kMiB * 32;

/// Throws Error naming the call and cuBLAS's words unless `status` is success.
void check(cublasStatus_t status, const char* call);

/// "algorithm 66, tile 20, …": cuBLASLt's description of an algorithm.
std::string words(const cublasLtMatmulAlgo_t& algorithm);

#define PLUMBLINE_CUBLAS(call) ::plumbline::cuda::check((call), #call)

inline cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp8_e4m3:
      return CUDA_R_8F_E4M3;
    case DType::fp8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_16F;
  }
}

/// A cuBLASLt object that is destroyed with its owner.
template <class T, cublasStatus_t (*kDestroy)(T)>
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (value_ != nullptr) static_cast<void>(kDestroy(value_));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  T* address() { return &value_; }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class V>
inline void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const V& value) {
  PLUMBLINE_CUBLAS(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value));
}
template <class V>
inline void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                const V& value) {
  PLUMBLINE_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

/// Row-major memory of `rows` × `cols` as cuBLASLt sees it: its transpose, column by column.
inline void describe(Layout& layout, const Matrix& x) {
  const std::int64_t stride = x.rows == 1 ? x.cols : x.stride;
  PLUMBLINE_CUBLAS(cublasLtMatrixLayoutCreate(layout.address(), data_type(x.dtype),
                                              static_cast<std::uint64_t>(x.cols),
                                              static_cast<std::uint64_t>(x.rows), stride));
}

/// `count` such matrices, each `step` elements behind the one before.
inline void set_batch(const Layout& layout, std::int64_t count, std::int64_t step) {
  const auto matrices = static_cast<std::int32_t>(count);
  PLUMBLINE_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                    &matrices, sizeof matrices));
  PLUMBLINE_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                    &step, sizeof step));
}

/// Another number of rows of the matrix that was described.
inline void set_rows(const Layout& layout, std::int64_t rows) {
  const auto count = static_cast<std::uint64_t>(rows);
  PLUMBLINE_CUBLAS(
      cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_COLS, &count, sizeof count));
}

/// Two time stamps in a stream.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    PLUMBLINE_CUDA(cudaEventCreate(&begin_));
    PLUMBLINE_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start() { PLUMBLINE_CUDA(cudaEventRecord(begin_, stream_)); }
  double stop() {
    float milliseconds = 0;
    PLUMBLINE_CUDA(cudaEventRecord(end_, stream_));
    PLUMBLINE_CUDA(cudaEventSynchronize(end_));
    PLUMBLINE_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds * 1e-3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Memory for the results of timed runs, never C, which must not change if it is accumulated into. As aligned
/// as C, and no better. `more`: elements behind it, of a batch's other matrices.
class BesideC {
 public:
  BesideC(const Matrix& c, unsigned alignment, cudaStream_t stream, std::int64_t more = 0) : stream_(stream) {
    const std::int64_t elements = (c.rows - 1) * c.stride + c.cols + more;
    const auto bytes = static_cast<std::size_t>(elements * size_of(c.dtype) + 16);
    if (cudaMallocAsync(&memory_, bytes, stream_) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      memory_ = nullptr;
      return;
    }
    data_ = static_cast<std::byte*>(memory_) + (alignment < 16 ? alignment : 0);
  }
  ~BesideC() {
    if (memory_ != nullptr) static_cast<void>(cudaFreeAsync(memory_, stream_));
  }
  BesideC(const BesideC&) = delete;
  BesideC& operator=(const BesideC&) = delete;
  /// nullptr if there was no room.
  void* data() const { return data_; }

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
  void* data_ = nullptr;
};

/// Seconds of the fastest of a few runs.
template <class Run>
inline double least_seconds(cudaStream_t stream, Run&& run) {
  constexpr int kRuns = 5;
  Stopwatch watch(stream);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    watch.start();
    run();
    least = std::min(least, watch.stop());
  }
  return least;
}

/// One product, ready to run.
struct MatmulPlan {
  Operation operation;
  Layout a, b, c;
  float alpha = 1;
  float beta = 0;
  cublasLtMatmulAlgo_t algorithm{};
};

}  // namespace plumbline::cuda
