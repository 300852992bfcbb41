// The few calls of the CUDA runtime and of cuBLASLt that CudaOperators makes, on host memory. All of it but
// the matrix products themselves runs, and is compared with references, if there is no GPU.
#include <cuda_fp8.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/cuda/gemm/matmul.hpp"
#include "tests/kernels/cuda/host_runtime.hpp"

namespace {

int waits = 0;
std::map<const void*, int> allocations;  // by stream
/// By stream: destinations and values.
std::map<const void*, std::vector<std::pair<double*, double>>> under_way;

}  // namespace

int plumbline::test::waits_for_the_device() {
  return waits;
}

int plumbline::test::allocations_in(const void* stream) {
  return allocations[stream];
}

extern "C" {

cudaError_t cudaSetDevice(int /*device*/) {
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  static char streams[4096];
  static int made = 0;
  *stream = reinterpret_cast<cudaStream_t>(&streams[made++ % 4096]);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++waits;
  for (const auto& [place, value] : std::exchange(under_way[stream], {})) *place = value;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  *data = std::malloc(bytes);
  std::memset(*data, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
/// Device 0 is of compute capability 9.0, device 80 of 8.0.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = device == 0 ? 9 : device / 10;
  if (attribute == cudaDevAttrComputeCapabilityMinor) *value = device % 10;
  // Few, so that blocks take more than one row each.
  if (attribute == cudaDevAttrMultiProcessorCount) *value = 3;
  if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin) *value = 227 << 10;
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  ++allocations[stream];
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xFF, bytes);  // NaN: reads of unwritten memory are found out
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t /*stream*/) {
  std::free(data);
  return cudaSuccess;
}
/// Numbers on their way to the host come when it waits for them, and are NaN before.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyDeviceToHost && bytes == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, from, sizeof value);
    under_way[stream].emplace_back(static_cast<double*>(to), value);
    return cudaSuccess;
  }
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/,
                              cudaStream_t /*stream*/) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  for (std::size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                width);
  }
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t /*status*/) {
  return "cudaError";
}
const char* cudaGetErrorString(cudaError_t /*status*/) {
  return "refused by the host runtime";
}

}  // extern "C"

namespace plumbline::cuda {

// Products by plain loops in fp32 over elements read as doubles would be read: through the type's bits.
struct MatmulPlan {};

namespace {

float element(const Matrix& x, std::int64_t row, std::int64_t col) {
  const void* at = x.at(row, col);
  if (x.dtype == DType::fp32) return *static_cast<const float*>(at);
  if (is_fp8(x.dtype)) {
    const auto type = x.dtype == DType::fp8_e4m3 ? __NV_E4M3 : __NV_E5M2;
    return __half2float(__nv_cvt_fp8_to_halfraw(*static_cast<const __nv_fp8_storage_t*>(at), type));
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return x.dtype == DType::bf16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                                : __half2float(__ushort_as_half(bits));
}

void write(const Matrix& x, std::int64_t row, std::int64_t col, double value) {
  void* at = x.at(row, col);
  const auto narrow = static_cast<float>(value);
  if (x.dtype == DType::fp32) {
    *static_cast<float*>(at) = narrow;
    return;
  }
  const std::uint16_t bits = x.dtype == DType::bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(narrow))
                                                    : __half_as_ushort(__float2half_rn(narrow));
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace

MatmulCache::MatmulCache(cudaStream_t stream, int device, GemmChoice choice)
    : stream_(stream), device_(device), choice_(choice), workspace_(stream), scales_(stream) {}
MatmulCache::~MatmulCache() = default;
std::vector<KernelChoice> MatmulCache::choices() const {
  return {};
}

/// Only every other time, so that sums apart are seen, too.
bool MatmulCache::run_with_column_sums(const Gemm& g, const std::function<void()>& apart) {
  static int calls = 0;
  apart();
  if (++calls % 2 == 0) return false;
  run(g);
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    double sum = 0;
    for (std::int64_t l = 0; l < g.a.rows; ++l) sum += element(g.a, l, i);
    write(g.bias_gradient, 0, i, sum);
  }
  return true;
}

void MatmulCache::run(const Gemm& g, const ProductBatch& batch) {
  if (batch.count > 1) {
    const auto step = [](Matrix& x, std::int64_t elements) { x.data = x.at(0, elements); };
    Gemm each = g;
    for (std::int64_t i = 0; i < batch.count; ++i) {
      run(each, {.factor = batch.factor});
      step(each.a, batch.a_step);
      step(each.b, batch.b_step);
      step(each.c, batch.c_step);
    }
    return;
  }
  const std::int64_t k = g.a_transposed ? g.a.rows : g.a.cols;
  const double scale = is_fp8(g.a.dtype) ? static_cast<double>(element(g.a_inverse_scale, 0, 0)) *
                                               element(g.b_inverse_scale, 0, 0)
                                         : 1;
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    for (std::int64_t j = 0; j < g.c.cols; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += static_cast<double>(g.a_transposed ? element(g.a, l, i) : element(g.a, i, l)) *
               (g.b_transposed ? element(g.b, j, l) : element(g.b, l, j));
      }
      sum *= scale * batch.factor;
      if (g.accumulate) sum += element(g.c, i, j);
      if (g.bias.data != nullptr) sum += element(g.bias, 0, j);
      write(g.c, i, j, sum);
    }
  }
}

}  // namespace plumbline::cuda
