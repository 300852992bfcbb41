// Device times on the ranks' clock, on a device that is threads (tests/core/backends/fake_gpu).
#include "core/profile/device_timeline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/core/backends/fake_gpu/streams.hpp"

namespace plumbline::device_timeline_test {
namespace {

/// The clock that places in the fake device's streams have.
Seconds host_time() {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

TEST(DeviceTimeline, ActionsAndLanesAreOnOneClock) {
  const DeviceStream compute;
  DeviceLanes lanes;
  DeviceTimeline timeline(compute.get(), host_time, {}, &lanes);
  const auto works = [&] {
    fake::submit(reinterpret_cast<fake::Stream*>(compute.get()),
                 [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  };
  const Action action{ActionType::forward, false, 0, 0};
  for (int step = 0; step < 2; ++step) {
    timeline.step_begins(step);
    const Seconds origin = host_time() - Seconds{1};
    timeline.action_begins(action, {});
    works();
    const std::size_t span = lanes.begin(Group::tensor, compute.get(), true);
    works();
    lanes.end(span, compute.get());
    timeline.action_ends(action);
    check_cuda(cudaStreamSynchronize(compute.get()), "cudaStreamSynchronize");
    std::vector<Event> events = {{action, {}, {}}};
    Seconds tensor;
    timeline.step_ends(origin, events, tensor);
    std::vector<LaneSpan> spans;
    timeline.add_lanes(origin, spans);
    ASSERT_EQ(spans.size(), 1U) << "of this step";
    EXPECT_GE(events[0].start.value, 1 - timeline.error().value - 1e-3);
    EXPECT_GE((spans[0].start - events[0].start).value, 0.019);
    EXPECT_GE((spans[0].end - spans[0].start).value, 0.019);
    EXPECT_LE(spans[0].end.value, events[0].end.value + 1e-6);
    EXPECT_NEAR((spans[0].end - spans[0].start - spans[0].waited).value, 0, 1e-9);
  }
}

}  // namespace
}  // namespace plumbline::device_timeline_test
