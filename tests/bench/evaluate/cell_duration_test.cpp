// Expected duration of cells, and their time limit.
#include "bench/evaluate/cell_duration.hpp"

#include <gtest/gtest.h>

namespace plumbline::cell_duration_test {
namespace {

Prediction predicted(double step_s, bool fits = true) {
  Prediction prediction;
  prediction.time.step = {step_s};
  prediction.fit.fits = fits;
  return prediction;
}

RunConfig with_steps(int warmup, int steps) {
  RunConfig config;
  config.measure.warmup_steps = warmup;
  config.measure.steps = steps;
  return config;
}

TEST(CellDuration, CountsStepsProbesAndStart) {
  HardwareProfile measured;
  measured.alone.emplace_back();
  const double start = duration_of(with_steps(0, 1), measured, predicted(0)).predicted.value;
  EXPECT_GT(start, 0.5);
  EXPECT_LT(start, 3);
  const double long_steps = duration_of(with_steps(1, 3), measured, predicted(20)).predicted.value;
  EXPECT_GT(long_steps, start + 80);
  EXPECT_LT(long_steps, start + 83) << "probes are of a second at most";
  EXPECT_LT(duration_of(with_steps(1, 3), measured, predicted(20, false)).predicted.value, start + 23)
      << "what does not fit ends in its first step";

  RunConfig emulated = with_steps(0, 2);
  emulated.machine.backend = Backend::emulated;
  emulated.machine.emulated_time_factor = 0.5;
  const double half = duration_of(emulated, measured, predicted(10)).predicted.value;
  EXPECT_GT(half, 10);
  EXPECT_LT(half, 13);
  emulated.machine.emulated_clock = EmulatedTime::virtual_time;
  EXPECT_LT(duration_of(emulated, measured, predicted(10)).predicted.value, 3);
}

TEST(CellDuration, TimeoutsFollowThePrediction) {
  HardwareProfile measured;
  measured.alone.emplace_back();
  const HardwareProfile guessed;
  RunConfig with_files = with_steps(1, 3);
  with_files.files.weights = "folder";
  RunConfig emulated = with_steps(1, 3);
  emulated.machine.backend = Backend::emulated;
  const struct {
    const char* what;
    RunConfig config;
    const HardwareProfile& hardware;
    double step_s, pace, least, most;
  } cases[] = {
      {"short", with_steps(1, 3), measured, 0.01, 1, 60, 100},
      {"long", with_steps(1, 3), measured, 20, 1, 60 + 800, 60 + 850},
      {"on a slow day", with_steps(1, 3), measured, 20, 4, 60 + 3200, 60 + 3400},
      {"on a quick day", with_steps(1, 3), measured, 20, 0.5, 60 + 800, 60 + 850},
      {"a guess", with_steps(1, 3), guessed, 0.01, 1, 300, 300},
      {"a guess of long steps", with_steps(1, 3), guessed, 20, 1, 60 + 800, 60 + 850},
      {"reads files", with_files, measured, 0.01, 1, 300, 300},
      {"emulated", emulated, measured, 0.01, 1, 300, 300},
  };
  for (const auto& c : cases) {
    const Seconds timeout = derived_timeout(duration_of(c.config, c.hardware, predicted(c.step_s)), c.pace);
    EXPECT_GE(timeout.value, c.least) << c.what;
    EXPECT_LE(timeout.value, c.most) << c.what;
  }
}

}  // namespace
}  // namespace plumbline::cell_duration_test
