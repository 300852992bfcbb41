// The description of a step: what it holds, and which behaviour follows the software.
#include "analysis/step/step_model.hpp"

#include <gtest/gtest.h>

#include "bench/plan/plan.hpp"

namespace plumbline::step_model_test {
namespace {

RunConfig sharded(const char* model, const char* software) {
  RunConfig config;
  config.model = *find_preset(model);
  config.machine.software = software;
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 16};
  config.parallel.world_size = 8;
  config.parallel.dp.zero_stage = 1;
  config.parallel.dp.overlap_param_gather = true;
  return config;
}

TEST(StepModel, HoldsTheStagesOfOneRouteAndNoTeacher) {
  RunConfig config = sharded("gpt2-124m", "plumbline");
  config.batch.seq_length = 1024;
  config.parallel.pipeline = 4;
  const Schedule schedule = schedule_for(config);
  const StepModel model(config, schedule);
  EXPECT_EQ(model.shapes(), stage_shapes(config, schedule));
  EXPECT_EQ(model.route().size(), 4U);
  EXPECT_TRUE(model.teachers.empty());
  EXPECT_EQ(model.layout.world(), 8);
}

TEST(StepModel, BehaviourFollowsTheSoftware) {
  struct Case {
    const char* software;
    bool own;
  };
  for (const Case& c : {Case{"plumbline", true}, Case{"megatron-core", false}}) {
    SCOPED_TRACE(c.software);
    RunConfig config = sharded("mixtral-8x7b", c.software);
    config.parallel.expert = 2;
    const Schedule schedule = schedule_for(config);
    const StageShape shape = StepModel(config, schedule).any();
    EXPECT_TRUE(shape.spreads_experts());
    EXPECT_EQ(shape.exchanges_rows(), c.own);
    EXPECT_EQ(shape.depends_on_routing(), c.own);
    EXPECT_EQ(shape.gathers_in_first_forward(), c.own);
    // Traits given take the place of those that the name stands for.
    if (!c.own) continue;
    config.parallel.expert = 1;
    RunConfig other = config;
    other.machine.software = "megatron-core";
    const StepModel given(config, schedule, software_of(other));
    EXPECT_FALSE(given.any().gathers_in_first_forward());
  }
}

}  // namespace
}  // namespace plumbline::step_model_test
