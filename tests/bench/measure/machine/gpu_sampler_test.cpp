// State of a GPU as a management library reports it, with a fake library and without any.
#include "bench/measure/machine/gpu_sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace plumbline::gpu_sampler_test {
namespace {

using testing::ElementsAre;

TEST(GpuSampler, KeepsTheExtremesOfWhatItSaw) {
  const Nvml nvml("0000:1A:00.0", FAKE_NVML);
  ASSERT_TRUE(nvml.there());
  EXPECT_EQ(nvml.memory()->total.value, 1000);
  EXPECT_EQ(nvml.memory()->used.value, 600);
  GpuSampler sampler(nvml, Seconds{0.001});
  EXPECT_FALSE(sampler.state().has_value()) << "before it was started";
  sampler.start();
  std::optional<GpuState> state;
  for (int i = 0; i < 5000 && (!state || state->samples < 3); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = sampler.state();
  }
  sampler.stop();
  ASSERT_TRUE(state.has_value());
  EXPECT_GE(state->samples, 3);
  EXPECT_EQ(state->most_sm_mhz - state->least_sm_mhz, 10 * (state->samples - 1));
  EXPECT_EQ(state->most_memory_mhz, 2619);
  EXPECT_NEAR(state->mean_watt, 675, 26);  // by the counter if this took long
  EXPECT_EQ(state->most_watt, 700);
  EXPECT_EQ(state->most_celsius, 66);
  EXPECT_THAT(state->throttled, ElementsAre("sw_power_cap"));
}

TEST(GpuSampler, TakesTheMeanPowerFromTheEnergyCounter) {
  const Nvml nvml("0000:1A:00.0", FAKE_NVML);
  GpuSampler sampler(nvml, Seconds{0.002});
  sampler.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sampler.stop();
  ASSERT_TRUE(sampler.state().has_value());
  EXPECT_NEAR(sampler.state()->mean_watt, 650, 20);
  EXPECT_EQ(sampler.state()->most_watt, 700);
}

TEST(Nvml, TellsLinksAndErrors) {
  const Nvml nvml("0000:1A:00.0", FAKE_NVML);
  NodeHealth health;
  nvml.add_links_and_errors(health);
  EXPECT_EQ(health.pcie_generation, -1);  // this library cannot tell
  EXPECT_EQ(health.pcie_width, 8);
  EXPECT_EQ(health.most_pcie_width, 16);
  EXPECT_EQ(health.corrected_errors, 5);
  EXPECT_EQ(health.uncorrected_errors, 2);
  EXPECT_EQ(health.nvlinks, 3);
}

TEST(GpuSampler, WithoutLibraryOrDeviceThereIsNothing) {
  for (const Nvml* nvml : {new Nvml("0000:1A:00.0", "libthere-is-none.so"), new Nvml("x", FAKE_NVML)}) {
    EXPECT_FALSE(nvml->there());
    EXPECT_FALSE(nvml->memory().has_value());
    EXPECT_FALSE(nvml->look().has_value());
    {
      GpuSampler sampler(*nvml);
      sampler.start();
      EXPECT_FALSE(sampler.state().has_value());
    }
    delete nvml;
  }
}

}  // namespace
}  // namespace plumbline::gpu_sampler_test
