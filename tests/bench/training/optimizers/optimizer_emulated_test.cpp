// Updates on emulated H100s: as long, as large and as talkative as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"
#include "tests/bench/training/support/emulated_step.hpp"

namespace plumbline::training::optimizer_emulated_test {
namespace {

struct Case {
  int tensor, data, zero;
  Optimizer optimizer;
  bool mixture = false;
};
constexpr Case kCases[] = {{1, 1, 0, Optimizer::muon},       {1, 1, 0, Optimizer::lion},
                           {1, 2, 0, Optimizer::muon},       {1, 2, 1, Optimizer::muon},
                           {1, 2, 3, Optimizer::muon},       {2, 1, 0, Optimizer::muon},
                           {1, 2, 1, Optimizer::muon, true}, {1, 4, 1, Optimizer::muon},
                           {2, 2, 1, Optimizer::muon},       {1, 2, 1, Optimizer::sgd}};

TEST(OptimizerEmulated, TakesThePredictedTime) {
  for (const Case& c : kCases) {
    if (c.tensor * c.data != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("tp{} dp{} zero{} {}", c.tensor, c.data, c.zero, optimizer_name(c.optimizer)));
    RunConfig config;
    config.model = c.mixture ? small_mixture(true) : small_qwen2();
    if (c.mixture) config.model.mixture.experts = 8;
    widen(config.model, 3, 8192, 16);
    config.batch.seq_length = config.model.position.max = 2048;
    config.batch.global_batch_size = 2 * c.data;
    config.numerics.precision = DType::bf16;
    set_emulated(config);
    config.parallel.dp.zero_stage = c.zero;
    config.optimizer.kind = c.optimizer;
    if (c.optimizer == Optimizer::sgd) config.optimizer.sgd_momentum = 0.9;
    config.measure.warmup_steps = 1;
    config.measure.steps = 1;
    set_layout(config, {c.tensor, 1, c.data});
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    const EmulatedStep step = emulated_step(config);
    expect_as_predicted(step, 0.02);
    const double update = step.predicted.time.optimizer / step.predicted.time.step;
    fmt::print("tp{} dp{} zero{} {}: {:.4f} of the predicted time, update {:.1f} %\n", c.tensor, c.data,
               c.zero, optimizer_name(c.optimizer), step.time_ratio(), 100 * update);
  }
}

}  // namespace
}  // namespace plumbline::training::optimizer_emulated_test
