// A card's profile with measured operators: predictions rest on measurements, and on the accelerator for the
// rest.
#include <gtest/gtest.h>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/cuda/times/clock_rates.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::gpu_profile_test {
namespace {

constexpr const char* kAccelerator = "h100-sxm-80gb";

RunConfig gpt2() {
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.machine.backend = Backend::cuda;
  config.machine.hardware = kAccelerator;
  config.batch.micro_batch_size = config.batch.global_batch_size = 8;
  return config;
}

double step_with(const HardwareProfile& profile) {
  const RunConfig config = gpt2();
  return predict(config, schedule_for(config), profile).time.step.value;
}

TEST(GpuProfile, WhatWasMeasuredCountsAndTheRestIsTheAccelerators) {
  const HardwareProfile preset = load_hardware(kAccelerator);
  HardwareProfile measured = preset;
  OperatorTimes times;
  times.working_set = kMiB * 1024;
  // Every product of the forward takes a millisecond; nothing else was measured.
  times.gemm["forward.bf16"] = {{256, 16384}, {256, 65536}, {256, 16384}, std::vector<double>(8, 1e-3)};
  measured.alone = {times};
  const HardwareProfile read = parse_hardware(to_json(measured), "written and read");
  EXPECT_EQ(read.accelerator()->name, kAccelerator);
  EXPECT_EQ(read.peak_16bit.value, preset.peak_16bit.value);
  const double with_preset = step_with(preset);
  const double with_measured = step_with(read);
  // Four products in each of twelve layers, and that of the vocabulary.
  EXPECT_GT(with_measured - with_preset, 0.035);
  EXPECT_LT(with_measured - with_preset, 0.049);
}

TEST(GpuProfile, SaysThatItsProductsRanInBursts) {
  EXPECT_EQ(
      to_string(ClockRates{{817e12}, {668e12}}),
      "bf16 products: 817 TFLOP/s in bursts, which the profile has; 668 after 5 s of heat, so that long "
      "steps take up to 22 % longer");
  EXPECT_NE(to_string(ClockRates{{500e12}, {501e12}}).find("up to 0 % longer"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::gpu_profile_test
