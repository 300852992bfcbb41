// A host that submits a whole step before the device has done it, over the fake NCCL and CUDA runtime. It
// waits for nothing, and the watchdog counts the device's work.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/shared_comm.hpp"

namespace plumbline {
namespace {

Layout pipeline_of_all() {
  Layout layout;
  MPI_Comm_size(MPI_COMM_WORLD, &layout.pipeline);
  return layout;
}

NcclOptions options_of(const Layout& layout, cudaStream_t compute, Seconds timeout) {
  NcclOptions options;
  options.compute = compute;
  options.watchdog = {timeout, Seconds{0.01}};
  for (int from = 0; from + 1 < layout.pipeline; ++from) options.channels.push_back({from, from + 1});
  return options;
}

class Numbers {
 public:
  Numbers() { check_cuda(cudaMalloc(&data_, 4000), "cudaMalloc"); }
  ~Numbers() { (void)cudaFree(data_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  Matrix matrix() const { return {data_, 1, 1000, DType::int32}; }

 private:
  void* data_ = nullptr;
};

TEST(HostAhead, WaitsForNoMessageAndNoCollective) {
  const Layout layout = pipeline_of_all();
  MpiCommunicator control(layout);
  const DeviceStream compute;
  NcclCommunicator nccl(layout, control, options_of(layout, compute.get(), {300}));
  const Numbers numbers;
  const Matrix buffer = numbers.matrix();
  const int me = control.rank();
  const int before = fake::waits_for_the_device();
  for (int microbatch = 0; microbatch < 5; ++microbatch) {
    if (me > 0) {
      Ticket in = nccl.receive(buffer, me - 1, microbatch);
      nccl.wait(in);
    }
    nccl.action_asked_for();
    if (me + 1 < layout.pipeline) {
      Ticket out = nccl.send(buffer, me + 1, microbatch);
      nccl.wait(out);
    }
    nccl.all_reduce(Group::world, buffer, ReduceOp::max);
    Ticket gradients = nccl.start_all_reduce(Group::world, buffer, ReduceOp::max);
    nccl.progress();
    nccl.wait(gradients);
    nccl.action_asked_for();
  }
  EXPECT_EQ(fake::waits_for_the_device(), before);
  nccl.barrier(Group::world);
}

TEST(HostAhead, TheWatchdogLetsADeviceCompute) {
  using namespace std::chrono_literals;
  const Layout layout = pipeline_of_all();
  if (layout.pipeline == 1) return;
  MpiCommunicator control(layout);
  const DeviceStream compute;
  NcclCommunicator nccl(layout, control, options_of(layout, compute.get(), {1}));
  const Numbers numbers;
  const int me = control.rank();
  // Eight actions of 0.3 s, and messages that only come, or are only fetched, after them.
  const auto action = [](void*) { std::this_thread::sleep_for(300ms); };
  Ticket early;
  if (me == 1) early = nccl.receive(numbers.matrix(), 0, 0);
  for (int i = 0; i < 8; ++i) {
    check_cuda(cudaLaunchHostFunc(compute.get(), action, nullptr), "cudaLaunchHostFunc");
    nccl.action_asked_for();
  }
  if (me == 0) early = nccl.send(numbers.matrix(), 1, 0);
  nccl.wait(early);
  EXPECT_NO_THROW(nccl.barrier(Group::world));
  EXPECT_NO_THROW(nccl.progress());
}

}  // namespace
}  // namespace plumbline
