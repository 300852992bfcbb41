#include "bench/cuda/device_memory_watch.hpp"

#include <cuda_runtime_api.h>

#include "core/backends/nccl/check.hpp"

namespace plumbline {

DeviceReading DeviceMemoryWatch::read() const {
  DeviceReading reading;
  reading.used = meter_.used();
  reading.library_pool = library_pool_use(place_.device()).reserved;
  if (tensors_) reading.tensor_pool = tensors_().reserved;
  return reading;
}

std::unique_ptr<Operators> DeviceMemoryWatch::open(CudaOptions options) {
  readings_.host = place_.host();
  readings_.number = place_.number();
  std::unique_ptr<Operators> operators;
  place_.in_turn([&] {
    if (const auto before = meter_.used_before_context()) readings_.before = *before;
    check_cuda(cudaSetDevice(place_.device()), "cudaSetDevice");
    check_cuda(cudaFree(nullptr), "cudaFree");  // older runtimes make the context here
    meter_.context_exists();
    if (meter_.source() != "NVML") readings_.before = Bytes{-1};
    readings_.device = meter_.total();
    readings_.context = read();
    options.device = place_.device();
    operators = make_cuda_operators(options);
    readings_.operators = read();
  });
  return operators;
}

void DeviceMemoryWatch::connect(const std::function<void()>& connect) {
  readings_.alone = read();
  place_.meet();  // no rank connects before all have read
  connect();
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  place_.meet();
  readings_.connected = readings_.last = read();
  place_.meet();
}

void DeviceMemoryWatch::step_begins(int /*index*/) {
  forget_library_pool_peak(place_.device());
}

void DeviceMemoryWatch::step_ends(Seconds /*origin*/, std::vector<Event>& /*events*/,
                                  Seconds& /*tensor_communication*/) {
  readings_.last = read();
  readings_.most_library_pool = library_pool_use(place_.device()).most_reserved;
  if (tensors_) readings_.most_tensor_pool = tensors_().most_reserved;
}

}  // namespace plumbline
