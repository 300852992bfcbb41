// Lanes to the host's memory: copied data arrives, and emulated copies take their time one after another.
#include "core/run/host_lane.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline::host_lane_test {
namespace {

Matrix matrix_of(std::vector<float>& values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size()), DType::fp32};
}

TEST(HostLane, PlainCopiesThereAndBack) {
  const std::unique_ptr<HostLane> lane = plain_host_lane();
  Arena host({}, lane->memory());
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0F);
  const std::vector<float> before = values;
  const Tensor copy = host.allocate(Category::activations, "copy", 1, 100, DType::fp32);
  lane->start(matrix_of(values), copy);
  lane->wait();
  values.assign(100, 0);
  lane->start(copy, matrix_of(values));
  lane->wait();
  EXPECT_EQ(values, before);
  EXPECT_EQ(host.peak(), Bytes{400});
}

TEST(HostLane, EmulatedCopiesFollowOneAnotherBesideTheWork) {
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  LaneNotes notes;
  const std::unique_ptr<HostLane> lane = emulated_host_lane(
      clock, [](Bytes bytes) { return Seconds{static_cast<double>(bytes.value)}; }, &notes);
  Arena host({}, lane->memory());
  Arena device({}, untouched_memory());
  const Tensor tensor = device.allocate(Category::activations, "tensor", 1, 1, DType::fp32);
  const Tensor copy = host.allocate(Category::activations, "copy", 1, 1, DType::fp32);
  clock.advance({10});
  lane->start(tensor, copy);  // from 10 to 14
  lane->start(tensor, copy);  // to 18
  clock.advance({5});
  EXPECT_EQ(clock.now().value, 15);
  lane->wait();
  EXPECT_EQ(clock.now().value, 18);
  clock.advance({2});
  lane->start(copy, tensor);  // from 20 to 24
  clock.advance({9});
  lane->wait();
  EXPECT_EQ(clock.now().value, 29);
  EXPECT_EQ(clock.worked().value, 26);  // waiting is no work
  lane->wait();                         // for nothing
  std::vector<LaneSpan> spans;
  notes.add_lanes({}, spans);
  ASSERT_EQ(spans.size(), 2U);
  const double wanted[][3] = {{10, 18, 3}, {20, 24, 0}};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].group, std::nullopt);
    EXPECT_EQ(spans[i].start.value, wanted[i][0]);
    EXPECT_EQ(spans[i].end.value, wanted[i][1]);
    EXPECT_EQ(spans[i].waited.value, wanted[i][2]);
  }
}

TEST(HostLane, RefusesCopiesOfAnotherSize) {
  std::vector<float> values(4);
  std::vector<float> fewer(3);
  EXPECT_THROW(plain_host_lane()->start(matrix_of(values), matrix_of(fewer)), Error);
}

}  // namespace
}  // namespace plumbline::host_lane_test
