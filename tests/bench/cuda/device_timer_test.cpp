// Times of a device that is threads (tests/core/backends/fake_gpu). The host's own time does not count,
// sampling stops by noise, and a call that waits for the device does not hang.
#include "bench/cuda/times/device_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/core/backends/fake_gpu/streams.hpp"

namespace plumbline::device_timer_test {
namespace {

using std::chrono::milliseconds;

/// Ends with three samples however long a loaded machine takes for one.
constexpr SteadyLimits kThreeSamples{1e9, 3, {0}, {60}};

TEST(SteadySamples, StopByNoiseAndByTime) {
  struct Case {
    const char* name;
    std::vector<double> samples;
    bool enough;
  };
  const SteadyLimits limits{0.01, 3, {0.5}, {10}};
  const Case cases[] = {
      {"none", {}, false},
      {"too few", {1, 1}, false},
      {"steady", {1, 1, 1.001}, true},
      {"noisy", {1, 2, 1}, false},
      {"steady after all", {1, 1.02, 1, 1, 1, 1, 1, 1}, true},
      {"too short together", {0.1, 0.1, 0.1}, false},
      {"noisy for too long", {1, 5, 1, 5}, true},
      {"one long call", {11}, true},
  };
  for (const Case& c : cases) {
    SteadySamples samples(limits);
    for (const double sample : c.samples) samples.add({sample});
    EXPECT_EQ(samples.enough(), c.enough) << c.name;
  }
  SteadySamples three(limits);
  for (const double sample : {4.0, 2.0, 3.0}) three.add({sample});
  EXPECT_EQ(three.median().value, 3);
  EXPECT_NEAR(three.noise(), 1.0 / 3, 1e-12);
}

TEST(DeviceTimer, CountsTheDeviceAndNotTheHost) {
  const DeviceStream stream;
  DeviceTimer timer(stream.get());
  int calls = 0;
  const auto work = [&](int on_host, int on_device) {
    return [&stream, &calls, on_host, on_device] {
      ++calls;
      std::this_thread::sleep_for(milliseconds(on_host));
      fake::submit(reinterpret_cast<fake::Stream*>(stream.get()),
                   [on_device] { std::this_thread::sleep_for(milliseconds(on_device)); });
    };
  };
  // The host asks for four pieces, each later than the device could begin with it.
  const DeviceTime time = timer.burst(
      [&] {
        for (int i = 0; i < 4; ++i) work(10, 1)();
      },
      kThreeSamples);
  EXPECT_GE(time.median.value, 0.004);
  EXPECT_LT(time.median.value, 0.04) << "40 ms are the host's";
  EXPECT_FALSE(time.waits);
  EXPECT_GE(time.samples, 3);

  calls = 0;
  const auto begin = std::chrono::steady_clock::now();
  const Seconds back_to_back = timer.sustained(work(0, 1), Seconds{0.02});
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(back_to_back.value, 0.001);
  const int in_second_half = (calls - 2) / 2;
  EXPECT_GE(in_second_half, 1);
  EXPECT_LE(back_to_back.value * in_second_half, passed) << calls << " calls";
}

TEST(DeviceTimer, ACallThatWaitsForTheDeviceIsTimedAllTheSame) {
  const DeviceStream stream;
  DeviceTimer timer(stream.get());
  const DeviceTime time =
      timer.burst([&] { check_cuda(cudaStreamSynchronize(stream.get()), "synchronize"); }, kThreeSamples);
  EXPECT_TRUE(time.waits);
  EXPECT_GE(time.samples, 3);
}

}  // namespace
}  // namespace plumbline::device_timer_test
