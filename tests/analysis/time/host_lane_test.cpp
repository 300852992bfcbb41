// Launches behind a read of the host, by hand.
#include "analysis/time/host_lane.hpp"

#include <gtest/gtest.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/time/operator_time.hpp"

namespace plumbline::host_lane_test {
namespace {

struct Launched {
  double seconds;
  HostLaunch launch;
  std::int64_t products = 1;
};

struct Case {
  const char* name;
  std::vector<Launched> calls;
  double idle;
  double slowdown = 1;
  double python = 1;
};

TEST(HostLane, ByHand) {
  const HostLaunch read{true, {2}, 0};
  const Case cases[] = {
      {"no read: the host is ahead", {{1, {false, {5}, 0}}, {1, {false, {5}, 0}}}, 0},
      {"a read: the call's launches are exposed", {{4, {}}, {3, read}}, 2},
      {"a slower host", {{4, {}}, {3, read}}, 5.5, 2.75},
      {"a long kernel hides the next launches", {{3, read}, {1, {false, {3}, 0}}}, 2},
      {"a short one hides a part of them", {{1, read}, {1, {false, {3}, 0}}}, 4},
      {"calls without launches follow on", {{1, read}, {5, {}}, {1, {false, {6}, 0}}}, 2},
      // First product launched at 3, the fourth at 6; it takes a quarter of two seconds.
      {"products one by one, host slower", {{2, {true, {2}, 1}, 4}}, 4.5},
      {"products one by one, device slower", {{8, {true, {2}, 1}, 4}}, 3},
      {"operators behind a call delay the next", {{1, {true, {2}, 0, {4}}}, {1, {false, {1}, 0}}}, 6},
      {"a module's Python, slower than launches", {{1, {true, {1}, 0, {}, {2}}}, {1, {}}}, 5, 1, 2},
      {"Python behind a call delays the next",
       {{1, {true, {1}, 0, {}, {}, {3}}}, {1, {false, {1}, 0}}},
       7,
       1,
       2},
      {"the second read waits anew", {{3, read}, {3, read}}, 4},
  };
  for (const Case& c : cases) {
    HardwareProfile hardware;
    Device& device = hardware.kind.emplace<Accelerator>(Accelerator{"a test's", {}}).constants.device;
    device.host.slowdown = c.slowdown;
    device.host.python_slowdown = c.python;
    HostLane lane(hardware);
    double now = 0;
    double idle = 0;
    for (const Launched& each : c.calls) {
      const OperatorCall call{.work = GemmCall{.batch = each.products}, .launch = each.launch};
      const double waited = lane.wait(call, now, each.seconds);
      idle += waited;
      now += waited + each.seconds;
    }
    EXPECT_DOUBLE_EQ(idle, c.idle) << c.name;
  }
}

TEST(HostLane, HostsOfAccelerators) {
  EXPECT_EQ(host_slowdown(HardwareProfile()), 1) << "measured tables have the host's time";
  EXPECT_EQ(host_slowdown(*find_hardware_preset("h100-sxm-80gb")), 1);
  EXPECT_EQ(host_slowdown(*find_hardware_preset("gb200-nvl72")), 2.75) << "Grace";
  EXPECT_EQ(host_slowdown(*find_hardware_preset("gb300-nvl72")), 2.75);
  EXPECT_LT(host_slowdown(*find_hardware_preset("b300-sxm-270gb")), 1);
  EXPECT_EQ(python_slowdown(*find_hardware_preset("b300-sxm-270gb")), 0.83) << "as its launches";
  EXPECT_EQ(python_slowdown(*find_hardware_preset("gb300-nvl72")), 1.85);
}

// 11 parameters. An update of few elements takes as long as its launches; one of many waits for reads alone.
TEST(HostLane, AnUpdateTakesItsLaunchesOrWaitsForItsReads) {
  const HardwareProfile& hardware = *find_hardware_preset("a100-sxm-40gb");
  Software software;
  software.step_end.update_operators = 10;
  software.step_end.slice_parameters = 5;
  software.host.operator_s = 1e-5;
  StageShape shape;
  shape.software = &software;
  shape.layers = 2;
  HeldStages rank;
  rank.held = {shape};
  for (const std::int64_t elements : {1'000, 1'000'000'000}) {
    const OperatorCall call{
        .work = StreamCall{.name = "optimizer step", .elements = elements, .bytes_per_element = 96},
        .label = "optimizer step"};
    const double kernels = time_of(call, hardware, {}).value;
    const double launches = 11 * 10 * 1e-5;
    EXPECT_NEAR(update_wait(rank, {call}, hardware, {}).update.value,
                elements > 1'000'000 ? 11 * 2 * 1e-5 : launches - kernels, 1e-12);
  }
  software.step_end.update_operators = 0;
  EXPECT_EQ(update_wait(rank, {}, hardware, {}).update.value, 0);
  software.step_end.gathered_numbers = 3;
  rank.layout.data = 4;
  EXPECT_NEAR(update_wait(rank, {}, hardware, {}).gathered.value, 3 * 4 * 2 * 1e-5, 1e-12);
}

}  // namespace
}  // namespace plumbline::host_lane_test
