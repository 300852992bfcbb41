// From a configuration to the schedule that is predicted and executed.
#include "bench/plan/plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/plan/rehearsed_step.hpp"
#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"
#include "core/validate/validate.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::plan_test {
namespace {

using testing::HasSubstr;

RunConfig config_of(const char* schedule, int ranks, int microbatches) {
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.parallel.pp.schedule = schedule;
  config.parallel.world_size = config.parallel.pipeline = ranks;
  config.batch.global_batch_size = microbatches;
  return config;
}

std::string complaint(const RunConfig& config) {
  return test::refusal_of([&] { schedule_for(config); });
}

std::int64_t count(const Schedule& schedule, ActionType type) {
  std::int64_t found = 0;
  for (const auto& actions : schedule.actions) {
    found += std::count_if(actions.begin(), actions.end(), [&](const Action& a) { return a.type == type; });
  }
  return found;
}

TEST(Plan, EverySchedulesStagesAndStepEnd) {
  struct Case {
    const char* name;
    int chunks, stages, routes, reductions, tied_reductions;  // at data size 1, tied embeddings
  };
  constexpr Case kCases[] = {
      {"gpipe", 1, 4, 1, 0, 2},   {"1f1b", 1, 4, 1, 0, 2},         {"interleaved", 1, 8, 1, 0, 2},
      {"zb-h1", 1, 4, 1, 0, 2},   {"interleaved", 3, 12, 1, 0, 2}, {"zb-h2", 1, 4, 1, 0, 2},
      {"zb-auto", 1, 4, 1, 0, 2}, {"zb-v", 1, 8, 1, 0, 0},         {"v-half", 2, 8, 1, 0, 0},
      {"v-min", 1, 8, 1, 0, 0},   {"dualpipe", 1, 8, 2, 4, 0},     {"dualpipev", 1, 8, 1, 0, 0},
  };
  for (const Case& c : kCases) {
    RunConfig config = config_of(c.name, 4, 12);
    config.parallel.pp.virtual_chunks = c.chunks;
    const Schedule schedule = schedule_for(config);
    EXPECT_EQ(schedule.stages, c.stages) << c.name;
    EXPECT_EQ(schedule.routes, c.routes) << c.name;
    EXPECT_EQ(count(schedule, ActionType::reduce_gradients), c.reductions) << c.name;
    EXPECT_EQ(count(schedule, ActionType::reduce_embedding), c.tied_reductions) << c.name;
    EXPECT_EQ(count(schedule, ActionType::optimizer), 4) << c.name;
    config.parallel.world_size = 8;
    config.batch.global_batch_size = 24;
    EXPECT_EQ(count(schedule_for(config), ActionType::reduce_gradients), 4) << c.name;
  }
}

TEST(Plan, SaysWhatDoesNotFit) {
  EXPECT_THAT(complaint(config_of("interleaved", 8, 8)), HasSubstr("at most the 12 layers"));
  RunConfig config = config_of("1f1b", 2, 4);
  config.parallel.pp.virtual_chunks = 2;
  EXPECT_NE(complaint(config), "accepted");
  EXPECT_THAT(complaint(config_of("nonsense", 2, 4)), HasSubstr("nonsense"));
}

TEST(Plan, FilesMayHoldSeveralStagesAndSplitBackwards) {
  const auto path = std::filesystem::temp_directory_path() / "plumbline_plan_test.csv";
  const auto with = [&](const char* text, int ranks, int microbatches) {
    std::ofstream(path) << text;
    return config_of(path.c_str(), ranks, microbatches);
  };
  const Schedule split = schedule_for(with("0F0,3F0,3I0,0B0,3W0\n1F0,2F0,2B0,1I0,1W0\n", 2, 1));
  EXPECT_EQ(split.stages, 4);
  EXPECT_EQ(count(split, ActionType::send_forward), 2);
  EXPECT_THAT(complaint(with("0F0,0B0\n1F0,1B0\n", 2, 2)), HasSubstr("1 micro-batches, expected 2 and 2"));
  // Tied embeddings need their two ranks at the ends of the pipeline, or one.
  const char* middle = "1F0,1B0\n0F0,0B0\n2F0,2B0\n";
  EXPECT_THAT(complaint(with(middle, 3, 1)), HasSubstr("found the first stage on rank 1"));
  RunConfig untied = with(middle, 3, 1);
  untied.model.embedding.tied = false;
  EXPECT_EQ(complaint(untied), "accepted");
  std::filesystem::remove(path);
}

TEST(Plan, ATeacherTakesTheDistillationScheduleWithinTheBudget) {
  RunConfig config = config_of("1f1b", 2, 8);
  config.batch.seq_length = 64;
  config.distillation.teacher = *find_preset("gpt2-1558m");
  const auto most_cached = [](const Schedule& schedule) {
    int now = 0;
    int most = 0;
    for (const Action& action : schedule.actions[1]) {
      if (action.type == ActionType::teacher_forward) most = std::max(most, ++now);
      if (action.type == ActionType::forward) --now;
    }
    return most;
  };
  for (const char* name : {"nemo-2504", "abeja", "nemo-13065", "bubble-fill"}) {
    config.distillation.schedule = name;
    const Schedule schedule = schedule_for(config);
    EXPECT_EQ(schedule.name, name);
    EXPECT_EQ(schedule.joint_teacher, std::string(name) == "nemo-13065");
    EXPECT_EQ(most_cached(schedule), std::string(name) == "nemo-2504" ? 8 : 1) << name;
  }
  config.distillation.schedule = "bubble-fill";
  config.distillation.cache_limit = 3;
  EXPECT_LE(most_cached(schedule_for(config)), 3);
  config.distillation.cache_limit = 0;
  config.machine.memory_budget = {1};  // too small for anything: one output, and the run reports the missing
                                       // memory
  EXPECT_EQ(most_cached(schedule_for(config)), 1);
}

TEST(Plan, BubbleFillSplitsBackwardsWithinAbejasMemoryAndTheKeptOutputs) {
  for (const int ranks : {2, 4}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const char* hardware : {"", "a100-sxm-80gb"}) {
        RunConfig config = config_of("1f1b", ranks, 12);
        config.batch.seq_length = 128;
        config.distillation.teacher = *find_preset("gpt2-1558m");
        config.recompute.granularity = recompute;
        config.machine.hardware = hardware;
        config.distillation.cache_limit = 2;
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, recompute " << static_cast<int>(recompute) << " " << hardware);
        config.distillation.schedule = "abeja";
        const std::int64_t abeja = predict_memory(config, schedule_for(config)).peak.value;
        config.distillation.schedule = "bubble-fill";
        const Schedule schedule = schedule_for(config);
        const std::int64_t output = 128 * config.padded_vocab() * 2;
        EXPECT_LE(predict_memory(config, schedule).peak.value, abeja + 2 * output);
        if (recompute != Recompute::full) {
          EXPECT_GT(count(schedule, ActionType::backward_input), 0);
        }
      }
    }
  }
}

TEST(Plan, DistillationFollowsTheFormulasAndBubbleFillIsShorter) {
  const std::string matrix = PLUMBLINE_SOURCE_DIR "/bench/matrices/distillation_schedules.yaml";
  std::map<int, std::map<std::string, double>> step;  // by ranks and schedule
  std::map<int, std::map<std::string, double>> formula;
  for (const MatrixCell& cell : load_matrix(matrix, {})) {
    const RunConfig& config = cell.config;
    const Schedule schedule = schedule_for(config);
    const Prediction prediction = predict(config, schedule, load_hardware(config.machine.hardware));
    const int ranks = config.parallel.pipeline;
    step[ranks][config.distillation.schedule] = simulate(schedule, prediction.costs).pipeline_end().value;
    if (config.distillation.schedule == "bubble-fill") continue;
    const bool sweep = config.distillation.schedule == "nemo-2504";
    double slowest = 0;
    double once_of_slowest = 0;
    double once = 0;
    for (const StageCosts& stage : prediction.costs.stages) {
      const double work = (stage.teacher_forward + stage.forward + stage.backward).value;
      const double here =
          sweep ? (std::max(stage.teacher_forward, stage.forward) + stage.backward).value : work;
      once += here;
      if (work > slowest) once_of_slowest = here;
      slowest = std::max(slowest, work);
    }
    formula[ranks][config.distillation.schedule] = config.microbatches() * slowest + once - once_of_slowest;
  }
  ASSERT_EQ(step.size(), 2);
  for (auto& [ranks, found] : step) {
    EXPECT_NEAR(found["nemo-2504"] / formula[ranks]["nemo-2504"], 1, 0.02) << ranks;
    EXPECT_NEAR(found["nemo-13065"] / formula[ranks]["nemo-13065"], 1, 0.02) << ranks;
    for (const char* other : {"nemo-2504", "abeja", "nemo-13065"}) {
      EXPECT_LT(found["bubble-fill"], 0.97 * found[other]) << ranks << " " << other;
    }
  }
}

/// A backend rehearses few micro-batches in place of hundreds, and sees all that a rank does.
TEST(RehearsedStep, HasAllActionsOfTheStepInFewMicrobatches) {
  const auto kinds = [](const Schedule& schedule) {
    std::set<std::string> found;
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
      for (const Action& action : schedule.actions[rank])
        found.insert(
            fmt::format("{} {} {} {}", rank, name_of(action.type), action.stage, action.overlaps_next));
    return found;
  };
  struct Case {
    const char* schedule;
    int ranks, most;  // micro-batches of the rehearsal
    int data = 1;
  };
  constexpr Case kCases[] = {{"gpipe", 4, 2},       {"1f1b", 1, 2},    {"1f1b", 4, 2, 2},
                             {"interleaved", 4, 4}, {"zb-h1", 4, 4},   {"zb-h2", 4, 16},
                             {"zb-v", 4, 8},        {"v-half", 4, 16}, {"dualpipe", 4, 16},
                             {"dualpipev", 4, 16},  {"vocab-2", 4, 16}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.schedule);
    RunConfig config = config_of(c.schedule, c.ranks, 128);
    if (std::string(c.schedule) == "interleaved") config.parallel.pp.virtual_chunks = 2;
    if (std::string(c.schedule) == "vocab-2") {
      config.parallel.pp.schedule = "1f1b";
      config.parallel.pp.vocab_parallel = parse_vocab_parallel("vocab-2");
    }
    config.parallel.world_size = c.ranks * c.data;
    config.batch.global_batch_size *= c.data;
    const Schedule whole = schedule_for(config);
    const PlannedStep step = rehearsed_step(config, whole);
    EXPECT_GE(step.schedule.microbatches, 2);
    EXPECT_LE(step.schedule.microbatches, c.most);
    EXPECT_EQ(step.config.microbatches(), step.schedule.microbatches);
    EXPECT_EQ(kinds(step.schedule), kinds(whole));
  }
  const RunConfig shortest = config_of("1f1b", 2, 2);
  EXPECT_EQ(rehearsed_step(shortest, schedule_for(shortest)).config.batch.global_batch_size, 2);
}

}  // namespace
}  // namespace plumbline::plan_test
