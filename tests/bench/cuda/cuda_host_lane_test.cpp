// Copies between device and host on a device that is threads (tests/core/backends/fake_gpu). They follow
// earlier computation, later computation follows them, and computation meanwhile does not wait.
#include "bench/cuda/cuda_host_lane.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/cuda/times/device_timer.hpp"
#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/streams.hpp"

namespace plumbline::cuda_host_lane_test {
namespace {

constexpr std::int64_t kElements = 1000;
constexpr std::chrono::milliseconds kLong{30};

void compute(const DeviceStream& stream, std::function<void()> work) {
  fake::submit(reinterpret_cast<fake::Stream*>(stream.get()), std::move(work));
}

Matrix matrix_of(std::vector<float>& values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size()), DType::fp32};
}

TEST(CudaHostLane, CopiesFollowWhatWasComputedAndAreFollowed) {
  const DeviceStream stream;
  const std::unique_ptr<HostLane> lane = cuda_host_lane(stream.get());
  Arena host({}, lane->memory());
  std::vector<float> device(kElements, 0);
  std::vector<float> again(kElements, 0);
  const Tensor copy = host.allocate(Category::activations, "copy", 1, kElements, DType::fp32);
  compute(stream, [&] {
    std::this_thread::sleep_for(kLong);
    device.assign(kElements, 7);
  });
  lane->start(matrix_of(device), copy);
  lane->wait();
  compute(stream, [&] { device.assign(kElements, -1); });  // freed and used again
  lane->start(copy, matrix_of(again));
  lane->wait();
  std::atomic<float> seen{0};
  compute(stream, [&] { seen = again.back(); });
  check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(device.front(), -1);
}

TEST(CudaHostLane, ComputationGoesOnAlongside) {
  const DeviceStream stream;
  const std::unique_ptr<HostLane> lane = cuda_host_lane(stream.get());
  std::vector<float> device(kElements, 1);
  std::vector<float> host(kElements, 0);
  std::atomic<bool> meanwhile{false};
  std::atomic<bool> copied_first{false};
  lane->start(matrix_of(device), matrix_of(host));
  compute(stream, [&] { meanwhile = true; });
  lane->wait();
  compute(stream, [&] { copied_first = host.back() == 1; });
  check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_TRUE(meanwhile);
  EXPECT_TRUE(copied_first);
}

TEST(CudaHostLane, NotesCopiesBetweenWaits) {
  const DeviceStream stream;
  DeviceLanes lanes;
  const std::unique_ptr<HostLane> lane = cuda_host_lane(stream.get(), &lanes);
  std::vector<float> device(kElements, 1);
  std::vector<float> host(kElements, 0);
  const DeviceEvent base(cudaEventDefault);
  check_cuda(cudaEventRecord(base.get(), stream.get()), "cudaEventRecord");
  lane->wait();  // for nothing
  for (int copies = 0; copies < 2; ++copies) lane->start(matrix_of(device), matrix_of(host));
  lane->wait();
  compute(stream, [] { std::this_thread::sleep_for(kLong); });
  lane->start(matrix_of(host), matrix_of(device));
  lane->wait();
  check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  const std::vector<LaneSpan> spans = lanes.since(base);
  ASSERT_EQ(spans.size(), 2U);
  for (const LaneSpan& span : spans) {
    EXPECT_EQ(span.group, std::nullopt);
    EXPECT_LE(span.start, span.end);
    EXPECT_LE(span.waited, span.end - span.start);
  }
  EXPECT_GE((spans[1].start - spans[0].end).value, 0.02) << "after what was computed before it";
}

/// Many short copies: the end of one that comes after what computation waits for is missed in some of them.
TEST(CudaHostLane, ComputationWaitsForTheEndOfWhatIsNoted) {
  const DeviceStream stream;
  DeviceLanes lanes;
  const std::unique_ptr<HostLane> lane = cuda_host_lane(stream.get(), &lanes);
  std::vector<float> device(1, 1);
  std::vector<float> host(1, 0);
  const DeviceEvent base(cudaEventDefault);
  check_cuda(cudaEventRecord(base.get(), stream.get()), "cudaEventRecord");
  for (int step = 0; step < 2000; ++step) {
    lanes.clear();
    lane->start(matrix_of(device), matrix_of(host));
    lane->wait();
    check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    ASSERT_EQ(lanes.since(base).size(), 1U);  // an event not yet reached is an error
  }
}

TEST(CudaHostLane, RefusesWhatDoesNotFit) {
  const DeviceStream stream;
  const std::unique_ptr<HostLane> lane = cuda_host_lane(stream.get());
  std::vector<float> device(kElements, 1);
  std::vector<float> shorter(kElements - 1, 0);
  EXPECT_THROW(lane->start(matrix_of(device), matrix_of(shorter)), Error);
}

}  // namespace
}  // namespace plumbline::cuda_host_lane_test
