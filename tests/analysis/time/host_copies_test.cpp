// Copies between device and host alongside an action's computation. On this machine every operator takes one
// second, so that everything can be counted by hand.
#include "analysis/time/host_copies.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <gtest/gtest.h>

#include "analysis/memory/host_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::host_copies_test {
namespace {

RunConfig four_layers(std::int64_t offloaded) {
  RunConfig config = sample::tiny_qwen2();
  config.model.layers = 4;
  config.offload.num_layers = offloaded;
  return config;
}

// A layer takes 12 seconds forward, 15 backward, 10 in I; embedding 1, output layer 5 forward, 3 backward, 2
// in I.
TEST(HostCopies, RunBesideTheNextLayer) {
  struct Case {
    const char* name;
    ActionType type;
    std::int64_t layers;
    double copy;
    int processors;
    double all, exposed, copied;
  };
  using enum ActionType;
  const Case cases[] = {
      {"hidden", forward, 2, 5, 0, 54, 0, 10},
      {"longer than a layer", forward, 2, 20, 0, 54 + 2 * 8, 2 * 8, 40},
      {"one", forward, 1, 20, 0, 54 + 8, 8, 20},
      {"all that may be", forward, 3, 20, 0, 54 + 3 * 8, 3 * 8, 60},
      {"hidden, back", backward, 2, 5, 0, 64, 0, 10},
      {"longer than a layer, back", backward, 2, 20, 0, 64 + 2 * 5, 2 * 5, 40},
      {"the first beside the last layer, back", backward, 3, 20, 0, 64 + 3 * 5, 3 * 5, 60},
      {"in I", backward_input, 2, 20, 0, 43 + 2 * 10, 2 * 10, 40},
      {"not in W", backward_weight, 2, 20, 0, 21, 0, 0},
      {"on shared processors", forward, 2, 5, 2, 54 + 10, 10, 10},
      {"on shared processors, back", backward, 2, 5, 2, 64 + 10, 10, 10},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    HardwareProfile machine = sample::counting_machine(0);
    machine.kind = Calibrated{c.processors};
    const StageShape shape = stage_shapes(four_layers(c.layers), 1)[0];
    HostCopies copies;
    copies.back = c.type != forward;
    if (c.type != backward_weight)
      copies.of_layer.assign(static_cast<std::size_t>(c.layers), Seconds{c.copy});
    std::vector<LaneSpan> lanes;
    const ActionTime time = time_action(work_of(shape, c.type), machine, {}, copies, &lanes);
    EXPECT_NEAR(time.all.value, c.all, 1e-9);
    EXPECT_NEAR(time.copies.value, c.exposed, 1e-9);
    EXPECT_NEAR(time.copied.value, c.copied, 1e-9);
    Seconds waited, all;
    for (const LaneSpan& span : lanes) {
      EXPECT_EQ(span.group, std::nullopt) << "one rank has copies alone";
      waited += span.waited;
      all += span.end - span.start;
    }
    EXPECT_NEAR(waited.value, c.exposed, 1e-9);
    EXPECT_NEAR(all.value, c.copied, 1e-9);
  }
}

// T = 4, h = q = 8, k = 4, F = 16, f = 32, fp32: x, x2, two norm outputs and the attention output 128 bytes
// each, qkv 256, fc1 512, the activation output 256, two rows of statistics 16 each, the log-sum-exp 32.
constexpr std::int64_t kLayer = 5 * 128 + 256 + 512 + 256 + 2 * 16 + 32;

TEST(HostMemory, IsWhatLayersKeepOfEveryMicroBatchUnderWay) {
  RunConfig config = four_layers(3);
  const std::vector<Bytes> three(3, Bytes{kLayer});
  EXPECT_EQ(offloaded_bytes(stage_shapes(config, 1)[0]), three);
  config.recompute.granularity = Recompute::selective;
  EXPECT_EQ(offloaded_bytes(stage_shapes(config, 1)[0]), std::vector<Bytes>(3, Bytes{kLayer - 128 - 32}));
  config.recompute.granularity = Recompute::none;
  // Two stages of two layers: one each, for the micro-batches that the schedule keeps.
  config.parallel.pipeline = config.parallel.world_size = 2;
  config.batch.global_batch_size = 6;
  struct Case {
    const char* schedule;
    std::int64_t first, last;
  };
  for (const Case& c : {Case{"1f1b", 2, 1}, Case{"gpipe", 6, 6}}) {
    ScheduleRequest request;
    request.name = c.schedule;
    request.ranks = 2;
    request.microbatches = 6;
    const Schedule schedule =
        add_step_end(add_transfers(make_schedule(request), TransferOrder::sends_first), {true, true});
    const std::vector<StageShape> shapes = stage_shapes(config, schedule);
    EXPECT_EQ(host_peak(shapes, schedule, 0).value, c.first * kLayer) << c.schedule;
    EXPECT_EQ(host_peak(shapes, schedule, 1).value, c.last * kLayer) << c.schedule;
  }
}

TEST(HostMemory, CopiesTakeItsBytesByTheAcceleratorsBandwidth) {
  const HardwareProfile h100 = load_hardware("h100-sxm-80gb");
  const StageShape shape = stage_shapes(four_layers(2), 1)[0];
  const HostCopies forward = host_copies(shape, ActionType::forward, h100, {});
  ASSERT_EQ(forward.of_layer.size(), 2);
  EXPECT_NEAR(forward.of_layer[1].value, kLayer / h100.accelerator()->constants.device.host_bandwidth, 1e-15);
  EXPECT_FALSE(forward.back);
  EXPECT_TRUE(host_copies(shape, ActionType::backward, h100, {}).back);
  EXPECT_TRUE(host_copies(shape, ActionType::backward_weight, h100, {}).of_layer.empty());
}

}  // namespace
}  // namespace plumbline::host_copies_test
