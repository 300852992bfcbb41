// Advice where a configuration does not fit: single keys first, then all savings, then more ranks.
#include "bench/plan/what_would_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::what_would_fit_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string advice(const RunConfig& config) {
  const HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  const Schedule schedule = schedule_for(config);
  return what_would_fit(config, hardware,
                        fit_of(config, schedule, hardware, predict_memory(config, schedule)));
}

RunConfig config_of(const char* model, int world, int tensor, int pipeline, std::int64_t gib) {
  RunConfig config;
  config.model = *find_preset(model);
  config.parallel.world_size = world;
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.batch.micro_batch_size = 2;
  config.batch.global_batch_size = 64;
  config.batch.seq_length = 2048;
  config.machine.memory_budget = kGiB * gib;
  return config;
}

struct Case {
  const char* name;
  RunConfig config;
  std::vector<const char*> says;
  const char* silent;
};

TEST(WhatWouldFit, NamesTheCheapestWayOut) {
  const Case kCases[] = {
      {"one key is enough",
       config_of("llama-3.1-8b", 16, 2, 2, 40),
       {"needs", "of 40.00 GiB", "it would fit with zero_stage 1 (", "or with"},
       "zero_stage 2"},
      {"all savings on the same ranks",
       config_of("llama-3.1-70b", 16, 1, 1, 78),
       {"it would fit with world_size 16,", "recompute_granularity full"},
       "or with"},
      {"more ranks",
       config_of("llama-3.1-405b", 16, 2, 2, 78),
       {"it would fit with world_size ", "tensor_model_parallel_size"},
       "world_size 16,"},
      {"nowhere",
       config_of("llama-3.1-8b", 1, 1, 1, 0),
       {"of 1.00 MiB", "the least found is", "it takes a device"},
       "would fit"},
  };
  for (Case c : kCases) {
    SCOPED_TRACE(c.name);
    if (c.config.machine.memory_budget.value == 0) c.config.machine.memory_budget = kMiB;
    const std::string line = advice(c.config);
    for (const char* part : c.says) EXPECT_THAT(line, HasSubstr(part));
    EXPECT_THAT(line, Not(HasSubstr(c.silent)));
    EXPECT_THAT(line, Not(HasSubstr("\n")));
  }
}

RunConfig config_with(RunConfig config, const char* software) {
  config.machine.software = software;
  return config;
}

/// Features that the software lacks are not proposed, and a mixture's experts go on more ranks.
TEST(WhatWouldFit, ProposesWhatTheSoftwareHas) {
  RunConfig mixture = config_of("mixtral-8x7b", 16, 2, 1, 78);
  mixture.parallel.sequence_parallel = true;
  mixture.parallel.dp.zero_stage = 1;
  mixture.batch.micro_batch_size = 1;
  mixture.batch.seq_length = 8192;
  const Case kCases[] = {
      {"Megatron-LM has stage 1 only",
       config_with(config_of("llama-3.1-8b", 16, 1, 1, 40), "megatron-core"),
       {"it would fit with"},
       "zero_stage 2"},
      {"and the one of 2021 none",
       config_with(config_of("llama-3.1-8b", 16, 1, 1, 40), "megatron-2021"),
       {"it would fit with"},
       "zero_stage"},
      {"DeepSpeed has all",
       config_with(config_of("llama-3.1-8b", 16, 1, 1, 55), "deepspeed"),
       {"zero_stage 2"},
       "with zero_stage 1 ("},
      {"experts on more ranks",
       config_with(mixture, "megatron-core"),
       {"expert_model_parallel_size", "recompute_granularity"},
       "tensor_model_parallel_size 16"},
      {"fewer stages", config_of("llama-3.1-70b", 16, 2, 8, 78), {"it would fit with"}, "world_size 32"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const std::string line = advice(c.config);
    for (const char* part : c.says) EXPECT_THAT(line, HasSubstr(part));
    EXPECT_THAT(line, Not(HasSubstr(c.silent)));
  }
}

TEST(WhatWouldFit, TheAdviceFits) {
  RunConfig config = config_of("llama-3.1-8b", 16, 2, 2, 40);
  ASSERT_FALSE(predict_memory(config, schedule_for(config)).fits(config.machine.memory_budget));
  ASSERT_THAT(advice(config), HasSubstr("zero_stage 1 ("));
  config.parallel.dp.zero_stage = 1;
  EXPECT_TRUE(predict_memory(config, schedule_for(config)).fits(config.machine.memory_budget));
}

/// The settings of every alternative of an advice, "it would fit with KEY VALUE and KEY VALUE (9 GiB), or
/// with KEY VALUE, KEY VALUE (8 GiB)".
std::vector<Overrides> alternatives_of(const std::string& line) {
  constexpr std::string_view kBegin = "it would fit with ";
  std::vector<Overrides> all;
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string::npos) return all;
  std::string rest = line.substr(begin + kBegin.size()) + ", or with ";
  for (std::size_t end = 0; (end = rest.find(", or with ")) != std::string::npos; rest.erase(0, end + 10)) {
    std::string settings = rest.substr(0, rest.find(" ("));
    for (std::size_t at = 0; (at = settings.find(" and ")) != std::string::npos;)
      settings.replace(at, 5, ", ");
    std::istringstream words(settings);
    Overrides one;
    for (std::string key, value; words >> key >> value;) {
      if (value.ends_with(',')) value.pop_back();
      one.push_back({key, value});
    }
    all.push_back(one);
  }
  return all;
}

/// Advice is for the software that it is given for: followed, it is legal, nothing is predicted as if, and it
/// fits.
TEST(WhatWouldFit, EveryAdviceIsLegalForItsSoftware) {
  const HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  const Overrides kTooLarge[] = {
      {{"model", "llama-3.1-8b"}, {"world_size", "8"}, {"micro_batch_size", "8"}, {"seq_length", "8192"}},
      {{"model", "llama-3.1-70b"}, {"world_size", "32"}, {"seq_length", "8192"}},
      {{"model", "llama-3.1-405b"}, {"world_size", "64"}, {"seq_length", "4096"}},
      {{"model", "qwen3-235b-a22b"}, {"world_size", "32"}, {"seq_length", "4096"}},
  };
  int followed = 0;
  for (const auto& [name, software] : built_in_profiles().software) {
    for (const Overrides& given : kTooLarge) {
      Overrides keys = given;
      keys.insert(keys.end(), {{"software", name},
                               {"hardware", "h100-sxm-80gb"},
                               {"precision", "bf16"},
                               {"global_batch_size", "256"}});
      const RunConfig config = load_run_config("", keys);
      if (why_invalid(config) || why_unpredictable(config) || why_unpredictable(config, hardware)) continue;
      const RepeatedSchedule step = step_for(config);
      const Fit fit = fit_of(config, step.once, hardware, predict_memory(config, step));
      if (fit.fits) continue;
      const std::string line = what_would_fit(config, hardware, fit);
      for (const Overrides& alternative : alternatives_of(line)) {
        SCOPED_TRACE(name + ": " + line);
        Overrides changed = keys;
        changed.insert(changed.end(), alternative.begin(), alternative.end());
        const RunConfig advised = load_run_config("", changed);
        EXPECT_EQ(why_invalid(advised).value_or(""), "");
        EXPECT_EQ(why_unpredictable(advised).value_or(""), "");
        EXPECT_EQ(why_unpredictable(advised, hardware).value_or(""), "");
        EXPECT_THAT(predicted_as_if(advised, hardware), testing::IsEmpty());
        const RepeatedSchedule theirs = step_for(advised);
        EXPECT_TRUE(fit_of(advised, theirs.once, hardware, predict_memory(advised, theirs)).fits);
        ++followed;
      }
      if (software.communication.sharded) {
        EXPECT_THAT(line, Not(HasSubstr("zero_stage")));
      }
    }
  }
  EXPECT_GT(followed, 100);
}

}  // namespace
}  // namespace plumbline::what_would_fit_test
