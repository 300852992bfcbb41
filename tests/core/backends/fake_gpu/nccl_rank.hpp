// A rank of the NCCL communicator over the fake NCCL and CUDA runtime, for machines without a GPU: streams
// are threads, and messages wait for their receivers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "tests/core/backends/fake_gpu/shared_comm.hpp"
#include "tests/core/backends/fake_gpu/streams.hpp"

namespace plumbline::fake {

/// Device memory of `count` floats or ints.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count, T value = T{}) : count_(count) {
    check_cuda(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    std::fill_n(static_cast<T*>(data_), count, value);
  }
  ~OnDevice() { (void)cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  Matrix matrix() const {
    constexpr DType type = std::is_same_v<T, float> ? DType::fp32 : DType::int32;
    return {data_, 1, static_cast<std::int64_t>(count_), type};
  }
  T& operator[](std::size_t i) { return static_cast<T*>(data_)[i]; }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

inline int world() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

inline Layout two_by(int tensor, int pipeline) {
  Layout layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = world() / (tensor * pipeline);
  return layout;
}

inline std::vector<Channel> ring(int ranks) {
  std::vector<Channel> channels;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) channels.push_back({from, to});
    }
  }
  return channels;
}

constexpr int kDevice = 1;  // not the one that threads begin with

/// A communicator whose compute stream is the host: every request is done at once.
struct Rank {
  explicit Rank(const Layout& layout, Seconds timeout = Seconds{300}, cudaStream_t compute = nullptr,
                int multiprocessors = 0, int context_ring = 1)
      : control(layout),
        nccl(layout, control, options(layout, timeout, compute, multiprocessors, context_ring)) {}
  static NcclOptions options(const Layout& layout, Seconds timeout, cudaStream_t compute, int multiprocessors,
                             int context_ring) {
    check_cuda(cudaSetDevice(kDevice), "cudaSetDevice");
    NcclOptions options;
    options.multiprocessors = multiprocessors;
    options.context_ring = context_ring;
    options.compute = compute;
    options.channels = ring(layout.pipeline);
    options.watchdog = {timeout, Seconds{0.01}};
    return options;
  }
  /// Sends or receives at once, and waits for it.
  void send(const Matrix& message, int to, int tag = 0) {
    Ticket ticket = nccl.send(message, to, tag);
    nccl.wait(ticket);
  }
  void receive(const Matrix& message, int from, int tag = 0) {
    Ticket ticket = nccl.receive(message, from, tag);
    nccl.wait(ticket);
  }
  void finish(Ticket ticket) { nccl.wait(ticket); }
  /// The neighbour so many ranks on.
  int neighbour(int distance = 1) const { return (nccl.rank() + distance + world()) % world(); }

  MpiCommunicator control;
  NcclCommunicator nccl;
};

constexpr std::size_t kMany = 100'000;  // several chunks, the last one short

}  // namespace plumbline::fake
