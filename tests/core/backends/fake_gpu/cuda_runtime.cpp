// The calls of the CUDA runtime that the NCCL communicator makes, on the fake device. Device memory is
// host memory that is remembered.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "tests/core/backends/fake_gpu/shared_comm.hpp"
#include "tests/core/backends/fake_gpu/streams.hpp"

namespace {

using plumbline::fake::Event;
using plumbline::fake::Place;
using plumbline::fake::Stream;
using plumbline::fake::submit;

std::mutex memory_mutex;
std::map<const char*, std::size_t> memory;  // start, bytes
thread_local int current_device = 0;
std::mutex asked_mutex;
std::set<int> asked;
std::atomic<int> waits{0};
std::atomic<std::size_t> over_the_bus{0};

Stream* of(cudaStream_t stream) {
  return reinterpret_cast<Stream*>(stream);
}
Event& of(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event);
}
/// Time at which the stream came to a recorded event.
std::optional<double> reached_at(cudaEvent_t event) {
  const std::lock_guard lock(of(event).place->mutex);
  return of(event).place->reached ? std::optional(of(event).place->time) : std::nullopt;
}

}  // namespace

std::set<int> plumbline::fake::devices_asked() {
  const std::lock_guard lock(asked_mutex);
  return asked;
}

int plumbline::fake::waits_for_the_device() {
  return waits;
}

std::size_t plumbline::fake::bytes_between_host_and_device() {
  return over_the_bus;
}

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "fake error";
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  const std::lock_guard lock(memory_mutex);
  memory[static_cast<const char*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(memory_mutex);
  memory.erase(static_cast<const char*>(data));
  std::free(data);
  return cudaSuccess;
}
/// Memory of the host: the device does not own it.
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind != cudaMemcpyDeviceToDevice) over_the_bus += bytes;
  submit(of(stream), [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  *attributes = {};
  const auto* place = static_cast<const char*>(data);
  const std::lock_guard lock(memory_mutex);
  auto found = memory.upper_bound(place);
  const bool ours = found != memory.begin() && place < (--found)->first + found->second;
  attributes->type = ours ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++waits;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  submit(of(stream), [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  submit(of(stream), [=] { function(argument); });
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  *value = 4096;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int priority) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream(priority));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete of(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++waits;
  if (stream != nullptr) of(stream)->drain();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (of(event).place) submit(of(stream), [place = of(event).place] { place->wait(); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto place = std::make_shared<Place>();
  of(event).place = place;
  submit(of(stream), [place] { place->reach(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  {
    const std::lock_guard lock(asked_mutex);
    asked.insert(current_device);
  }
  return !of(event).place || reached_at(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++waits;
  if (of(event).place) of(event).place->wait();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!of(begin).place || !of(end).place) return cudaErrorInvalidResourceHandle;
  const std::optional<double> from = reached_at(begin);
  const std::optional<double> to = reached_at(end);
  if (!from || !to) return cudaErrorNotReady;
  *milliseconds = static_cast<float>((*to - *from) * 1e3);
  return cudaSuccess;
}

}  // extern "C"
