// A shared expert's products alongside row exchanges on emulated H100s. The real training code on the
// emulated lanes takes as long as predicted, and less than without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/mixtures/emulated_exchanges.hpp"
#include "tests/bench/training/support/emulated_step.hpp"

namespace plumbline::training::shared_overlap_emulated_time_test {
namespace {

struct Case {
  const char* schedule;
  Layout layout;
  int zero;
  double step;  // at most, of the one without overlap
};
constexpr Case kCases[] = {{"1f1b", {1, 1, 2}, 0, 1},
                           {"zb-h1", {1, 1, 2}, 2, 1},
                           {"1f1b", {1, 2, 2}, 1, 1},
                           {"1f1b", {2, 1, 2}, 1, 1}};

TEST(SharedExpertAlongsideExchangesOnEmulatedDevices, TakesAsLongAsPredicted) {
  for (const Case& c : kCases) {
    RunConfig config = narrow_deepseek(c.schedule, c.layout, c.zero);
    if (config.parallel.world_size != world_ranks()) continue;
    config.model.mixture.shared = 2048;
    config.parallel.sequence_parallel = c.layout.tensor > 1;
    Seconds without;
    for (const bool overlap : {false, true}) {
      config.parallel.ep.shared_expert_overlap = overlap;
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      const EmulatedStep both = emulated_step(config);
      const StepTime& predicted = both.predicted.time;
      const TrainingResult& emulated = both.result;
      const Seconds step = emulated.step_times.front();
      const std::string figures = fmt::format(
          "{} tp{} pp{} ZeRO-{} overlap {}: predicted {:.1f} us, {:.1f} of them exposed; "
          "emulated {:.1f} and {:.1f}",
          c.schedule, c.layout.tensor, c.layout.pipeline, c.zero, overlap, 1e6 * predicted.step.value,
          1e6 * predicted.exposed_tensor.value, 1e6 * step.value, 1e6 * emulated.tensor_communication.value);
      fmt::print("{}\n", figures);
      EXPECT_NEAR(step / predicted.step, 1, 0.02) << figures;
      EXPECT_NEAR((emulated.tensor_communication - predicted.exposed_tensor) / step, 0, 0.02) << figures;
      if (overlap) {
        EXPECT_LT(step / without, c.step) << figures;
      }
      without = step;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::shared_overlap_emulated_time_test
