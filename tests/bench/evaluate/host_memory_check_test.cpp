// Ranks that the memory of a host has no room for.
#include "bench/evaluate/host_memory_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/memory/memory_model.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"

namespace plumbline::host_memory_check_test {
namespace {

using ::testing::HasSubstr;

RunConfig two_stages() {
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.batch.seq_length = 32;
  config.batch.global_batch_size = 4;
  config.parallel.world_size = 2;
  config.parallel.pipeline = 2;
  return config;
}

TEST(HostMemory, IsThatOfAllRanksAtTheirPeaks) {
  RunConfig config = two_stages();
  const MemoryPrediction memory = predict_memory(config, step_for(config));
  const Bytes first = memory.of_rank(0).peak.total();
  const Bytes second = memory.of_rank(1).peak.total();
  ASSERT_NE(first, second);
  EXPECT_EQ(host_memory_of(config, {1}), first);
  EXPECT_EQ(host_memory_of(config, {2}), first + second);
  EXPECT_EQ(host_memory_of(config, {1, 1}), second) << "the second host";
  EXPECT_EQ(host_memory_of(config, {5}), first + second) << "more slots than ranks";

  config.machine.memory_budget = std::min(first, second) / 2;
  EXPECT_EQ(host_memory_of(config, {2}), 2 * config.machine.memory_budget)
      << "a rank stops itself at its budget";
  config.machine.memory_budget = std::max(first, second);
  EXPECT_EQ(host_memory_of(config, {2}), first + second);
  for (const Backend backend : {Backend::emulated, Backend::cuda}) {
    config.machine.backend = backend;
    EXPECT_EQ(host_memory_of(config, {2}), Bytes{}) << "tensors are not on the host";
  }
}

TEST(HostMemory, IsRefusedOnlyWhereItDoesNotSuffice) {
  RunConfig config = two_stages();
  const Bytes needed = host_memory_of(config, {2});
  EXPECT_FALSE(why_not_in_host_memory(config, {2}, needed));
  EXPECT_FALSE(why_not_in_host_memory(config, {2}, {})) << "nothing is known of the host";
  const auto why = why_not_in_host_memory(config, {2}, needed - Bytes{1});
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("host memory: found "));
  EXPECT_THAT(*why, HasSubstr("for the 2 ranks of this host; "));
  EXPECT_FALSE(why_not_in_host_memory(config, {1}, needed - Bytes{1})) << "the other rank is elsewhere";
  EXPECT_NO_THROW(check_host_memory(config, {2}));

  RunConfig huge = two_stages();
  huge.model.hidden = 1 << 17;
  huge.model.head_dim = 1 << 15;
  huge.model.ffn = 1 << 19;
  EXPECT_THROW(check_host_memory(huge, {2}), OutOfMemory);
  huge.machine.backend = Backend::emulated;
  EXPECT_NO_THROW(check_host_memory(huge, {2}));
}

}  // namespace
}  // namespace plumbline::host_memory_check_test
