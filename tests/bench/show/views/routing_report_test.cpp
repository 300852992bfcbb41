// Refusals of random routings: memory that does not depend on them, and routings that would not be drawn.
#include "bench/show/views/routing_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace plumbline::routing_report_test {
namespace {

using testing::HasSubstr;

RunConfig mixture(int ranks) {
  RunConfig config;
  config.model = *find_preset("mixtral-8x7b");
  config.model.layers = 1;
  config.parallel.expert = config.parallel.world_size = ranks;
  config.batch.global_batch_size = ranks;
  return config;
}

std::string refusal(const RunConfig& config) {
  try {
    routing_interval(config, 2, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(RoutingReport, RefusesWhatItWouldNotDraw) {
  EXPECT_THAT(refusal(mixture(1)), HasSubstr("memory does not depend on routing"));
  RunConfig config = mixture(2);
  EXPECT_EQ(refusal(config), "");
  config.distillation.teacher = config.model;
  config.distillation.teacher->name = "teacher-of-8";
  EXPECT_THAT(refusal(config), HasSubstr("found the teacher teacher-of-8 with experts on several ranks"));
  config.distillation.teacher->mixture = {};
  EXPECT_EQ(refusal(config), "");
}

}  // namespace
}  // namespace plumbline::routing_report_test
