#include "bench/cuda/cuda_host_lane.hpp"

#include <new>
#include <optional>

#include "core/backends/nccl/device_events.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

class PinnedMemory final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* data = nullptr;
    const cudaError_t status =
        cudaHostAlloc(&data, static_cast<std::size_t>(bytes.value), cudaHostAllocDefault);
    if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
    check_cuda(status, "cudaHostAlloc");
    return data;
  }
  void release(void* data, Bytes /*bytes*/) noexcept override { static_cast<void>(cudaFreeHost(data)); }
};

class CudaHostLane final : public HostLane {
 public:
  CudaHostLane(cudaStream_t compute, DeviceLanes* lanes) : compute_(compute), lanes_(lanes) {}
  ~CudaHostLane() override { static_cast<void>(cudaStreamSynchronize(copies_.get())); }
  CudaHostLane(const CudaHostLane&) = delete;
  CudaHostLane& operator=(const CudaHostLane&) = delete;

  std::unique_ptr<MemorySource> memory() override { return std::make_unique<PinnedMemory>(); }

  void start(const Matrix& from, const Matrix& to) override {
    if (!from.contiguous() || !to.contiguous() || from.bytes() != to.bytes())
      throw Error("copy to the host: the matrices must be contiguous and of one size");
    if (from.empty()) return;
    check_cuda(cudaEventRecord(computed_.get(), compute_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(copies_.get(), computed_.get(), 0), "cudaStreamWaitEvent");
    if (lanes_ != nullptr && !span_) span_ = lanes_->begin(std::nullopt, copies_.get());
    check_cuda(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(from.bytes().value),
                               cudaMemcpyDefault, copies_.get()),
               "cudaMemcpyAsync");
  }
  void wait() override {
    if (span_) lanes_->end(*span_, copies_.get());
    // Behind the end of the span, so that who waits for the copies finds it reached.
    check_cuda(cudaEventRecord(copied_.get(), copies_.get()), "cudaEventRecord");
    if (span_) lanes_->begin_wait(*span_, compute_);
    check_cuda(cudaStreamWaitEvent(compute_, copied_.get(), 0), "cudaStreamWaitEvent");
    if (span_) lanes_->end_wait(*span_, compute_);
    span_.reset();
  }

 private:
  cudaStream_t compute_;
  DeviceLanes* lanes_;
  std::optional<std::size_t> span_;  // of copies that have not been waited for
  DeviceStream copies_{StreamPriority::highest};
  DeviceEvent computed_;  // recorded repeatedly: a waiting stream keeps the point of its wait
  DeviceEvent copied_;
};

}  // namespace

std::unique_ptr<HostLane> cuda_host_lane(cudaStream_t compute, DeviceLanes* lanes) {
  return std::make_unique<CudaHostLane>(compute, lanes);
}

}  // namespace plumbline
