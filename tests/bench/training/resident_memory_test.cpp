// Resident memory of a rank over many steps of an MoE model with expert parallelism, whose tensor sizes
// differ by layer, micro-batch and step, stays near the accounted peak.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::resident_memory_test {
namespace {

constexpr int kSteps = 200;
constexpr int kSettled = 20;  // steps until code and transport have their buffers
// malloc of glibc keeps free memory up to twice its largest mmap threshold, 32 MiB (mallopt(3)): buffers of
// collectives come and go there. No figure of the account.
constexpr double kKeptByMalloc = 64.0 * (1 << 20);

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t pages = 0;
  file >> size >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

/// Without what malloc keeps, which differs by megabytes between runs.
std::int64_t held_bytes() {
  malloc_trim(0);
  return resident_bytes();
}

TEST(ResidentMemory, StaysNearTheAccountedPeakOverManySteps) {
  RunConfig config;
  config.model = small_mixture(true);
  config.model.layers = 2;
  config.model.hidden = 256;
  config.model.ffn = 256;
  config.model.mixture.experts = 8;
  config.model.position.max = 192;
  config.batch.seq_length = 192;
  config.batch.global_batch_size = 4;
  config.measure.warmup_steps = 0;
  config.measure.steps = kSteps;
  config.parallel.expert = 2;
  set_layout(config, {1, 1, 2});
  ASSERT_EQ(why_invalid(config).value_or(""), "");
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  const std::int64_t before = resident_bytes();
  std::vector<std::int64_t> resident;  // of world rank 0, after each step
  std::int64_t settled = 0;
  std::int64_t last = 0;
  const TrainingResult result = train(config, schedule_for(config), *operators, communicator, communicator,
                                      host_memory(), [&](int done, int /*all*/, double /*loss*/) {
                                        resident.push_back(resident_bytes());
                                        if (done == kSettled) settled = held_bytes();
                                        if (done == kSteps) last = held_bytes();
                                      });
  if (communicator.rank() != 0) return;
  ASSERT_EQ(resident.size(), static_cast<std::size_t>(kSteps));
  const auto accounted = static_cast<double>(result.memory[0].at_peak.total().value);
  const std::int64_t most = *std::max_element(resident.begin(), resident.end());
  RecordProperty("accounted_bytes", std::to_string(result.memory[0].at_peak.total().value));
  RecordProperty("grown_bytes", std::to_string(last - settled));
  RecordProperty("resident_bytes", std::to_string(most - before));
  EXPECT_LE(static_cast<double>(most - before), 1.25 * accounted + kKeptByMalloc)
      << before << " before, accounted " << accounted;
  ASSERT_TRUE(settled > 0 && last > 0);
  EXPECT_LE(static_cast<double>(last - settled), 0.1 * accounted) << "it grows with the steps";
}

}  // namespace
}  // namespace plumbline::training::resident_memory_test
