// A trace that cannot be written or merged leaves the measurement as it is.
#include "bench/cuda/cuda_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.hpp"

namespace plumbline::cuda_trace_test {
namespace {

using testing::HasSubstr;

class CudaTraces : public testing::Test, protected test::TemporaryFolder {};

TEST_F(CudaTraces, AreWrittenOrAReasonIsReturned) {
  MpiCommunicator control{Layout()};
  Schedule schedule;
  schedule.microbatches = 1;
  schedule.rank_of_stage = {0};
  schedule.actions = {{{ActionType::forward, false, 0, 0}}};
  CudaTrace trace(control);
  std::vector<Event> events = {{schedule.actions[0][0], {0}, {1}}};
  Seconds tensor_communication;
  trace.step_begins(0);
  trace.step_ends(control.now(), events, tensor_communication);
  const std::string path = (folder_ / "trace.json").string();
  EXPECT_EQ(trace.write(schedule, path, {1e-6}), "");
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_THAT(trace.write(schedule, (folder_ / "no/where.json").string(), {1e-6}),
              HasSubstr("no/where.json"));
  schedule.ranks = 2;
  EXPECT_THAT(trace.write(schedule, path, {1e-6}), HasSubstr("timelines of 1 ranks, expected 2"));
}

}  // namespace
}  // namespace plumbline::cuda_trace_test
