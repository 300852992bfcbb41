// Device memory for an arena, and its amount.
#include <new>

#include "core/base/error.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline {
namespace {

DevicePoolUse use_of(cudaMemPool_t pool) {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
  PLUMBLINE_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &now));
  PLUMBLINE_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &most));
  return {{static_cast<std::int64_t>(now)}, {static_cast<std::int64_t>(most)}};
}

class DeviceMemory final : public MemorySource {
 public:
  DeviceMemory(int device, cudaStream_t stream) : stream_(stream) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    PLUMBLINE_CUDA(cudaMemPoolCreate(&pool_, &properties));
    std::uint64_t keep_all = UINT64_MAX;
    PLUMBLINE_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  }
  ~DeviceMemory() override {
    // Work that still reads freed blocks ends before the pool goes.
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaMemPoolDestroy(pool_));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(Bytes bytes) override {
    void* data = nullptr;
    const auto take = [&] {
      return cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes.value), pool_, stream_);
    };
    cudaError_t status = take();
    if (status == cudaErrorMemoryAllocation) {  // released memory may be fragmented: the device defragments
                                                // it
      static_cast<void>(cudaStreamSynchronize(stream_));
      static_cast<void>(cudaMemPoolTrimTo(pool_, 0));
      status = take();
    }
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // it was handled: the next call must not report it
      throw std::bad_alloc();
    }
    cuda::check(status, "cudaMallocFromPoolAsync");
    return data;
  }
  void release(void* data, Bytes /*bytes*/) noexcept override {
    static_cast<void>(cudaFreeAsync(data, stream_));
  }
  DevicePoolUse use() const { return use_of(pool_); }

 private:
  cudaStream_t stream_;
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace

std::unique_ptr<MemorySource> device_memory(Operators& operators) {
  auto* own = dynamic_cast<cuda::CudaOperators*>(&operators);
  if (own == nullptr) throw Error("device_memory: these operators were not made by make_cuda_operators()");
  return std::make_unique<DeviceMemory>(own->device(), own->stream());
}

DevicePoolUse device_pool_use(const MemorySource& memory) {
  const auto* own = dynamic_cast<const DeviceMemory*>(&memory);
  if (own == nullptr) throw Error("device_pool_use: this source was not made by device_memory()");
  return own->use();
}

DevicePoolUse library_pool_use(int device) {
  cudaMemPool_t pool = nullptr;
  PLUMBLINE_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
  return use_of(pool);
}

void forget_library_pool_peak(int device) {
  cudaMemPool_t pool = nullptr;
  PLUMBLINE_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
  std::uint64_t none = 0;
  PLUMBLINE_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &none));
}

int cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

std::string cuda_device_name(int device) {
  cudaDeviceProp properties{};
  PLUMBLINE_CUDA(cudaGetDeviceProperties(&properties, device));
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors";
}

DeviceMemoryUse device_memory_use(int device) {
  PLUMBLINE_CUDA(cudaSetDevice(device));
  std::size_t free = 0;
  std::size_t total = 0;
  PLUMBLINE_CUDA(cudaMemGetInfo(&free, &total));
  return {{static_cast<std::int64_t>(total)}, {static_cast<std::int64_t>(free)}};
}

}  // namespace plumbline
