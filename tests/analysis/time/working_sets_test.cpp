// Tables that decide an operand's cost, and the distance between its uses.
#include "analysis/time/tables/working_sets.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/time/operand_reuse.hpp"
#include "analysis/time/operator_time.hpp"
#include "schedules/generators.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::working_sets_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

std::vector<OperatorTimes> three_tables() {
  std::vector<OperatorTimes> tables(3);
  tables[0].working_set = kMiB;
  tables[1].working_set = kMiB * 8;
  tables[2].working_set = kMiB * 64;
  return tables;
}

TEST(WorkingSets, UsesComeFromTheTablesAroundTheirDistance) {
  const CacheLevels measured{{1 << 20, 4 << 20, 32 << 20}, {0, 1, 1.5}};
  struct Case {
    const char* name;
    Reuse reuse;
    CacheLevels levels;
    std::vector<double> shares;
  };
  const Case kCases[] = {
      {"in the private cache", {.apart = kKiB}, {}, {1, 0, 0}},
      {"nothing measured between tables: by the logarithm", {.apart = kMiB * 16}, {}, {0, 2.0 / 3, 1.0 / 3}},
      {"beyond all", {.apart = kMiB * 4096}, {}, {0, 0, 1}},
      {"measured", {.apart = kMiB * 2}, measured, {0.5, 0.5, 0}},
      {"measured, from memory in part", {.apart = kMiB * 500}, measured, {0, 0.5, 0.5}},
      {"half far apart, half next to one another",
       {.apart = kMiB * 64, .evenly_within = kMiB, .share_apart = 0.5},
       {},
       {0.5, 0, 0.5}},
  };
  for (const Case& c : kCases) {
    const std::vector<double> shares = table_shares(three_tables(), c.levels, c.reuse);
    ASSERT_EQ(shares.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(shares[i], c.shares[i], 1e-12) << c.name << " " << i;
  }
  EXPECT_TRUE(table_shares({}, {}, {}).empty());
}

// A cliff at 16 MiB: of distances up to 32 MiB half are beyond it.
TEST(WorkingSets, EvenlySpreadUsesAreBothSidesOfACliff) {
  const CacheLevels cliff{{16 << 20, (16 << 20) + 1.0}, {0, 2}};
  const Reuse reuse{.apart = {}, .evenly_within = kMiB * 32, .share_apart = 0};
  EXPECT_THAT(table_shares(three_tables(), cliff, reuse),
              ElementsAre(DoubleNear(0.5, 1e-12), 0, DoubleNear(0.5, 1e-12)));
}

// A size missing in a table takes as long as in the next larger one, else in the next smaller.
TEST(WorkingSets, TablesStandInForOneAnother) {
  HardwareProfile profile;
  profile.alone = three_tables();
  profile.alone[1].memory_bound["add.fp32"] = {{1}, {5}};
  const OperatorCall call{.work = StreamCall{.name = "add", .elements = 1}, .type = DType::fp32};
  for (const std::int64_t mib : {1, 8, 64, 1000}) {
    Load load;
    load.operands = {.apart = kMiB * mib};
    EXPECT_DOUBLE_EQ(time_of(call, profile, load).value, 5) << mib;
  }
}

// Nobody measures fp16.
TEST(WorkingSets, Fp16IsBf16ButForProductsOfProcessors) {
  for (const bool processors : {true, false}) {
    HardwareProfile profile;
    profile.kind = Calibrated{};
    if (processors) std::get<Calibrated>(profile.kind).processors = 2;
    profile.alone.emplace_back();
    profile.alone[0].memory_bound["add.bf16"] = {{1}, {5}};
    profile.alone[0].gemm["forward.fp32"] = {{1}, {16}, {16}, {7}};
    profile.alone[0].gemm["forward.bf16"] = {{1}, {16}, {16}, {3}};
    const OperatorCall add{.work = StreamCall{.name = "add", .elements = 1}, .type = DType::fp16};
    const OperatorCall product{.work = GemmCall{.tokens = 1, .out = 16, .in = 16}, .type = DType::fp16};
    EXPECT_DOUBLE_EQ(time_of(add, profile, {}).value, 5);
    EXPECT_DOUBLE_EQ(time_of(product, profile, {}).value, processors ? 7 : 3);
  }
}

TEST(OperandReuse, GradientsAreAWholeMicrobatchApartAndWeightsLess) {
  RunConfig config = sample::tiny_gpt2();
  config.batch.global_batch_size = 4;
  const Schedule schedule = one_f_one_b(1, 4);
  HardwareProfile hardware;
  hardware.alone = three_tables();
  const std::vector<StageShape> shapes = stage_shapes(config, schedule);
  const std::vector<StageShape> no_teacher;
  const OperandReuse reuse(config, schedule, shapes, no_teacher, hardware, 2);
  const Load forward = reuse.of(shapes[0], ActionType::forward, {});
  const Load backward = reuse.of(shapes[0], ActionType::backward, {});
  EXPECT_GT(forward.gradients.apart.value,
            2 * parameters_of(shapes[0]).total() * (shapes[0].numerics.e() + shapes[0].numerics.g()))
      << "two ranks take turns on a processor";
  EXPECT_EQ(forward.operands.share_apart, 0.25) << "the first of four micro-batches";
  EXPECT_GT(forward.operands.apart, forward.gradients.apart) << "the update passes over more than that";
  EXPECT_EQ(backward.operands.share_apart, 0);
  EXPECT_EQ(backward.operands.evenly_within, backward.gradients.apart);
  EXPECT_EQ(reuse.of(shapes[0], ActionType::backward, {}).weights_in_backward.evenly_within,
            backward.operands.evenly_within);

  config.recompute.granularity = Recompute::full;
  const std::vector<StageShape> recomputed = stage_shapes(config, schedule);
  const OperandReuse again(config, schedule, recomputed, no_teacher, hardware, 2);
  const Load after = again.of(recomputed[0], ActionType::backward, {});
  EXPECT_EQ(after.weights_in_backward.share_apart, 1);
  EXPECT_LT(after.weights_in_backward.apart, backward.gradients.apart) << "recomputation has just used them";
}

TEST(OperandReuse, WithoutTablesItIsNotAsked) {
  const RunConfig config = sample::tiny_gpt2();
  const Schedule schedule = one_f_one_b(1, config.microbatches());
  const std::vector<StageShape> shapes = stage_shapes(config, schedule);
  const std::vector<StageShape> no_teacher;
  const HardwareProfile hardware;
  const OperandReuse reuse(config, schedule, shapes, no_teacher, hardware, 1);
  EXPECT_EQ(reuse.of(shapes[0], ActionType::forward, {}).gradients.apart.value, 0);
}

}  // namespace
}  // namespace plumbline::working_sets_test
