// Data-parallel collectives alongside computation on emulated H100s. The real training code on the emulated
// lanes takes as long as predicted, action by action, and no longer with overlap than without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/predict/predict.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::data_overlap_emulated_time_test {
namespace {

struct Case {
  int zero;
  const char* schedule;
  double step;  // at most, of the one without overlap
  int ranks = 2;
  int secondary_shards = 1;
  int instances = 1;
};
// One micro-batch makes the collectives a large part of the step.
constexpr Case kCases[] = {
    {0, "1f1b", 0.95},           {1, "1f1b", 0.96},          {2, "zb-h1", 0.97},
    {3, "1f1b", 0.95},           {3, "1f1b", 0.95, 4},       {3, "1f1b", 0.95, 4, 2},
    {3, "zb-h1", 0.95, 4, 2},    {1, "1f1b", 0.97, 4, 1, 2}, {2, "1f1b", 0.97, 4, 1, 2},
    {2, "zb-h1", 0.97, 4, 1, 2}, {3, "1f1b", 0.97, 4, 1, 2}, {1, "1f1b", 0.97, 4, 1, 4},
    {2, "zb-h1", 0.97, 4, 1, 4}, {1, "1f1b", 0.97, 2, 1, 2}};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = small_qwen2();
  widen(config.model, 4, 8192, 16);
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 2 * ranks;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.dp.hpz_partition_size = c.secondary_shards;
  config.parallel.dp.optimizer_instances = c.instances;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, {1, 1, ranks});
  return config;
}

/// The largest difference in the length of an action of a rank.
double apart(const Trace& predicted, const Trace& emulated) {
  double most = 0;
  for (std::size_t rank = 0; rank < predicted.ranks.size(); ++rank) {
    EXPECT_EQ(predicted.ranks[rank].size(), emulated.ranks[rank].size());
    for (std::size_t i = 0; i < predicted.ranks[rank].size(); ++i) {
      const Event& a = predicted.ranks[rank][i];
      const Event& b = emulated.ranks[rank][i];
      most = std::max(most, std::abs(((a.end - a.start) - (b.end - b.start)).value));
    }
  }
  return most;
}

Seconds reducing(const Trace& trace) {
  Seconds sum;
  for (const Event& event : trace.ranks.front()) {
    if (event.action.type == ActionType::reduce_gradients) sum += event.end - event.start;
  }
  return sum;
}

TEST(DataOverlapOnEmulatedDevices, TakesAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (c.ranks != ranks) continue;
    Seconds without;
    for (const bool overlap : {false, true}) {
      RunConfig config = config_of(c, ranks);
      config.parallel.dp.overlap_grad_reduce = config.parallel.dp.overlap_param_gather = overlap;
      if (why_invalid(config)) config.parallel.dp.overlap_param_gather.reset();
      HardwareProfile hardware = load_hardware(config.machine.hardware);
      hardware.accelerator()->constants.network.gpus_per_node = 2;
      const Schedule schedule = schedule_for(config);
      const Prediction predicted = predict(config, schedule, hardware);
      const TrainingResult emulated = emulate(config, schedule, hardware);
      const Seconds step = emulated.step_times.front();
      if (!overlap) without = step;
      const double difference = apart(simulate(schedule, predicted.costs), emulated.trace);
      const std::string figures = fmt::format(
          "ZeRO-{} dp{} hpz{} instances {} {} overlap {}: predicted {:.1f} us of which {:.1f} exposed, "
          "emulated {:.1f}, "
          "actions apart by {:.2f}",
          c.zero, c.ranks, c.secondary_shards, c.instances, c.schedule, overlap,
          1e6 * predicted.time.step.value, 1e6 * predicted.time.exposed_data.value, 1e6 * step.value,
          1e6 * difference);
      fmt::print("{}\n", figures);
      EXPECT_NEAR(step / predicted.time.step, 1, 0.01) << figures;
      EXPECT_LT(difference, 0.01 * step.value) << figures;
      // In compute actions; the prediction has ARG, too.
      EXPECT_NEAR(
          (emulated.data_communication + reducing(emulated.trace) - predicted.time.exposed_data) / step, 0,
          0.01)
          << figures;
      EXPECT_LT(step / without, overlap ? c.step : 1.001) << figures;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::data_overlap_emulated_time_test
