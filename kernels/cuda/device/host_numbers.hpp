// Numbers on their way from the device, not waited for before a step needs them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device/error.hpp"
#include "kernels/number.hpp"

namespace plumbline::cuda {

/// Places in pinned host memory, reused when their Number has gone: a copy into any other memory would wait.
class HostNumbers {
 public:
  explicit HostNumbers(cudaStream_t stream) : stream_(stream) {}
  ~HostNumbers() { static_cast<void>(cudaStreamSynchronize(stream_)); }
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;

  void swap(HostNumbers& other) {
    std::swap(stream_, other.stream_);
    std::swap(places_, other.places_);
  }

  /// Value of `from` on the device once the stream has reached this point.
  Number fetch(const double* from) {
    double* place = places_->take();
    Number number(std::shared_ptr<const double>(
        place, [places = places_](const double* used) { places->give_back(const_cast<double*>(used)); }));
    PLUMBLINE_CUDA(cudaMemcpyAsync(place, from, sizeof(double), cudaMemcpyDeviceToHost, stream_));
    return number;
  }

 private:
  /// May outlive the stream.
  class Places {
   public:
    Places() = default;
    ~Places() {
      for (double* page : pages_) static_cast<void>(cudaFreeHost(page));
    }
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;

    double* take() {
      if (free_.empty()) add_page();
      double* place = free_.back();
      free_.pop_back();
      return place;
    }
    void give_back(double* place) { free_.push_back(place); }

   private:
    static constexpr std::size_t kPage = 512;

    void add_page() {
      void* page = nullptr;
      PLUMBLINE_CUDA(cudaHostAlloc(&page, kPage * sizeof(double), cudaHostAllocDefault));
      pages_.push_back(static_cast<double*>(page));
      free_.reserve(pages_.size() * kPage);  // so that giving back never allocates
      for (std::size_t i = kPage; i-- > 0;) free_.push_back(pages_.back() + i);
    }

    std::vector<double*> pages_;
    std::vector<double*> free_;
  };

  cudaStream_t stream_;
  std::shared_ptr<Places> places_ = std::make_shared<Places>();
};

}  // namespace plumbline::cuda
