// Stages and ranks that are alike.
#include "analysis/step/stage_kinds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/step/stage_shapes.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::stage_kinds_test {
namespace {

using testing::ElementsAre;

StageKinds kinds_of(const char* schedule, int ranks, std::int64_t layers, VocabPasses vocabulary) {
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.model.layers = layers;
  config.batch = {.seq_length = 1024, .micro_batch_size = 1, .global_batch_size = 16};
  config.parallel.world_size = config.parallel.pipeline = ranks;
  config.parallel.pp.schedule = schedule;
  config.parallel.pp.vocab_parallel = vocabulary;
  const Schedule made = schedule_for(config);
  return StageKinds(stage_shapes(config, made), made);
}

TEST(StageKinds, AreTheFirstTheLastAndThoseInBetween) {
  const StageKinds even = kinds_of("1f1b", 5, 10, VocabPasses::none);
  EXPECT_THAT(even.of_stage, ElementsAre(0, 1, 1, 1, 2));
  EXPECT_THAT(even.of_rank, ElementsAre(0, 1, 1, 1, 2));
  EXPECT_THAT(even.first_stage, ElementsAre(0, 1, 4));
  EXPECT_EQ(even.on_rank(3).front().place.stage, 3);
  // 4, 4, 3 and 3 layers.
  const StageKinds uneven = kinds_of("1f1b", 4, 14, VocabPasses::none);
  EXPECT_THAT(uneven.of_stage, ElementsAre(0, 1, 2, 3));
}

TEST(StageKinds, RanksOfAKindHoldStagesOfTheSameKinds) {
  // In a V the first rank has the first and the last stage, the last rank two neighbours.
  const StageKinds v = kinds_of("zb-v", 4, 16, VocabPasses::none);
  EXPECT_THAT(v.of_rank, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(v.stages_held[1], ElementsAre(1, 6));
  for (std::size_t stage = 0; stage < v.shapes.size(); ++stage) {
    StageShape like = v.shapes[v.first_stage[v.of_stage[stage]]];
    like.place.stage = v.shapes[stage].place.stage;
    EXPECT_EQ(like, v.shapes[stage]) << stage;
  }
  // Every rank carries a shard of the vocabulary; the ends have more to do with it.
  const StageKinds split = kinds_of("1f1b", 4, 16, VocabPasses::two_barriers);
  EXPECT_THAT(split.of_rank, ElementsAre(0, 1, 1, 2));
}

}  // namespace
}  // namespace plumbline::stage_kinds_test
