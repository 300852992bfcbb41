// Thread blocks that NCCL's kernels may hold, and multiprocessors left for computation.
#include "core/backends/nccl/block_budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/nccl/shared_gpu.hpp"
#include "core/base/error.hpp"

namespace plumbline::block_budget_test {
namespace {

TEST(BlockBudget, LeavesWhatNoWaitingMessageHolds) {
  struct Case {
    const char* name;
    NcclLanes lanes;
    int multiprocessors, left;  // 0: refused
  };
  const Case cases[] = {
      {"one rank", {}, 132, 132},
      {"tensor and data parallel", {0, 0, 1, true}, 132, 132},
      {"the middle of a pipeline", {4, 0, 0, true}, 132, 124},
      {"a split vocabulary on three H100 stages", {4, 5, 1, true}, 132, 84},
      {"a split vocabulary on two A100", {2, 5, 0, true}, 108, 64},
      {"the same on an H20", {2, 5, 0, true}, 78, 0},
      {"all fit, but less than half is left", {20, 0, 0, false}, 78, 0},
      {"exactly half is left", {16, 0, 0, true}, 64, 32},
      {"the awaited one does not fit alongside", {16, 0, 0, true}, 63, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    if (c.left > 0) {
      EXPECT_EQ(multiprocessors_for_computation(c.lanes, NcclBlocks(), c.multiprocessors), c.left);
    } else {
      EXPECT_THROW(multiprocessors_for_computation(c.lanes, NcclBlocks(), c.multiprocessors), InputError);
    }
  }
}

TEST(SharedGpu, TwoRanksPerGpuWhereNcclSaysTwo) {
  EXPECT_NO_THROW(require_sharing(8, 22809));  // ranks look like ranks of different hosts
  EXPECT_NO_THROW(require_sharing(2, 23000));
  try {
    require_sharing(4, 23007);
    ADD_FAILURE() << "accepted";
  } catch (const InputError& refusal) {
    EXPECT_THAT(refusal.what(), testing::HasSubstr("found 4 ranks on one GPU, expected 2 with NCCL 2.30"));
  }
}

}  // namespace
}  // namespace plumbline::block_budget_test
