// A stage's times against those of the stage that a search takes for it.
#include "analysis/search/stage_memo.hpp"

#include <gtest/gtest.h>

#include <string>

#include "analysis/hardware/software.hpp"
#include "analysis/search/search_space.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/action_time.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"

namespace plumbline::stage_memo_test {
namespace {

RunConfig config_of(const std::string& model, const std::string& software) {
  RunConfig config;
  config.model = *find_preset(model);
  config.model.layers = 4;
  config.batch = {.seq_length = 1024, .micro_batch_size = 1, .global_batch_size = 8};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = 4;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = software;
  return config;
}

/// Actions of all stages of all configurations whose work and that of shape_of_work() are compared.
int compared(const RunConfig& request) {
  const HardwareProfile& hardware = *find_hardware_preset(request.machine.hardware);
  RunConfig config = request;
  int shared = 0;
  for (const SearchRegion& region : search_regions(config)) {
    const auto compare = [&](const SearchKeys& keys) {
      set_keys(keys, config);
      Load load;
      load.layout = config.layout();
      Schedule schedule;
      try {
        schedule = step_for(config).once;
      } catch (const InputError&) {
        return;  // the schedule does not allow the sizes
      }
      for (const StageShape& shape : stage_shapes(config, schedule)) {
        const StageShape other = shape_of_work(shape);
        if (other == shape) continue;
        for (const ActionType type : {ActionType::forward, ActionType::backward}) {
          const ActionTime expected = time_action(framework_work(shape, type), hardware, load);
          const ActionTime found = time_action(framework_work(other, type), hardware, load);
          EXPECT_EQ(found.all, expected.all) << request.model.name << " zero " << keys.zero;
          EXPECT_EQ(found.host, expected.host);
          ++shared;
        }
      }
    };
    visit_region(request, region, true,
                 [&](const SearchFamily& family) { for_each_candidate(family, compare); });
  }
  return shared;
}

TEST(StageMemo, SharesTheTimesOfEqualWork) {
  for (const char* software : {"megatron-core", "megatron-2021", "nemo-2025"}) {
    for (const char* model : {"llama-3.1-8b", "gpt2-124m"})
      EXPECT_GT(compared(config_of(model, software)), 20) << software << " " << model;
  }
  EXPECT_GT(compared(config_of("llama-3.1-8b", "deepspeed")), 20);
  for (const char* software : {"megatron-core", "nemo-2025"})
    EXPECT_GT(compared(config_of("mixtral-8x7b", software)), 20) << software;
}

}  // namespace
}  // namespace plumbline::stage_memo_test
