// A host that submits a whole step before the device has done it, over the fake NCCL and CUDA runtime. It
// waits for nothing, and the watchdog counts the device's work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::host_ahead_test {
namespace {

using namespace fake;

NcclOptions options_of(const Layout& layout, cudaStream_t compute, Seconds timeout) {
  NcclOptions options;
  options.compute = compute;
  options.watchdog = {timeout, Seconds{0.01}};
  for (int from = 0; from + 1 < layout.pipeline; ++from) options.channels.push_back({from, from + 1});
  return options;
}

constexpr std::size_t kNumbers = 1000;

TEST(HostAhead, WaitsForNoMessageAndNoCollective) {
  const Layout layout = two_by(1, world());
  MpiCommunicator control(layout);
  const DeviceStream compute;
  NcclCommunicator nccl(layout, control, options_of(layout, compute.get(), {300}));
  const OnDevice<int> numbers(kNumbers);
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

/// C1, the operators behind it and C2 of three micro-batches. The compute stream goes on only when these
/// operators are done, and nobody waits for it.
TEST(HostAhead, ASideStreamComputesBetweenTwoCollectives) {
  Layout layout = two_by(1, world());
  layout.vocab_parallel = true;
  const int n = layout.pipeline;
  if (n == 1) return;
  MpiCommunicator control(layout);
  const DeviceStream compute;
  const DeviceStream side;
  const auto submit = [](const DeviceStream& stream, std::function<void()> work) {
    fake::submit(reinterpret_cast<fake::Stream*>(stream.get()), std::move(work));
  };
  NcclOptions options = options_of(layout, compute.get(), {300});
  options.side = {side.get(), [&](const std::function<void()>& work) { submit(side, work); }};
  NcclCommunicator nccl(layout, control, options);
  const int me = control.rank();
  struct Microbatch {
    OnDevice<int> statistics{kNumbers}, gradient{kNumbers};
    std::atomic<bool> prepared{false};
    bool passed = false;
    std::int32_t result = 0;
    TicketTimes times;
  };
  for (int step = 0; step < 2; ++step) {
    std::array<Microbatch, 3> microbatches;
    const int waits = fake::waits_for_the_device();
    const Seconds asked = nccl.now();
    for (Microbatch& here : microbatches) {
      const Matrix statistics = here.statistics.matrix();
      const Matrix gradient = here.gradient.matrix();
      const auto own = static_cast<std::int32_t>(10 * step + me);
      submit(compute, [=] { statistics.as<std::int32_t>()[me] = own; });
      const Ticket gathered =
          nccl.start_all_gather(Group::vocab_statistics, {statistics.at(0, me), 1, 1, DType::int32},
                                {statistics.data, 1, n, DType::int32});
      const auto combine = [=, &here] {
        const auto* const all = statistics.as<std::int32_t>();
        std::fill_n(gradient.as<std::int32_t>(), gradient.cols, std::accumulate(all, all + n, 0));
        here.prepared = true;
      };
      Ticket reduced =
          nccl.start_all_reduce_after(gathered, combine, Group::vocab_gradient, gradient, ReduceOp::sum);
      nccl.watch(reduced, here.times);
      submit(compute, [&here] {
        for (int i = 0; i < 6000 && !here.prepared; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        here.passed = here.prepared;
      });
      nccl.wait(reduced);
      submit(compute, [=, &here] { here.result = gradient.as<std::int32_t>()[gradient.cols - 1]; });
    }
    EXPECT_EQ(fake::waits_for_the_device(), waits);
    nccl.barrier(Group::world);
    nccl.settle_times();
    for (const Microbatch& here : microbatches) {
      EXPECT_TRUE(here.passed);
      EXPECT_EQ(here.result, n * (10 * step * n + n * (n - 1) / 2));
      constexpr Seconds kRounding{1e-3};
      EXPECT_GT(here.times.start, asked - Seconds{1});
      EXPECT_LE(here.times.start, here.times.end + kRounding);
      EXPECT_LE(here.times.end, here.times.waited_to + kRounding);
      EXPECT_LE(here.times.waited_from, here.times.waited_to + kRounding);
      EXPECT_LT(here.times.waited_to, nccl.now() + Seconds{1});
    }
  }
}

TEST(HostAhead, TheWatchdogLetsADeviceCompute) {
  using namespace std::chrono_literals;
  const Layout layout = two_by(1, world());
  if (layout.pipeline == 1) return;
  MpiCommunicator control(layout);
  const DeviceStream compute;
  NcclCommunicator nccl(layout, control, options_of(layout, compute.get(), {1}));
  const OnDevice<int> numbers(kNumbers);
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
}  // namespace plumbline::host_ahead_test
