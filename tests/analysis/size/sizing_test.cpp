// Sizes of trainings: closed forms of days and hours, and the fewest GPUs against sizing every count.
#include "analysis/size/sizing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/reliability/effective_time.hpp"
#include "analysis/size/fewest.hpp"
#include "analysis/stragglers/slow_machines.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::sizing_test {
namespace {

using testing::ElementsAre;

SizeQuestion question_of(const std::string& model, const std::string& hardware) {
  SizeQuestion question;
  RunConfig& config = question.config;
  config.model = *find_preset(model);
  config.machine.software = "megatron-core";
  config.machine.hardware = hardware;
  config.numerics.precision = DType::bf16;
  config.batch.seq_length = 1024;
  question.hardware = load_hardware(hardware);
  question.make = step_for;
  question.batch = {256, 256};
  question.tokens = 1e11;
  question.job.fleet = load_fleet("llama3-405b");
  question.job.checkpoint = {{kCheckpointBytesPerParameter * config.model.parameters()}, {1e11}, {1e11}, {}};
  question.job.recovery = {{60}, {162}, {}, {}};
  question.job.prices.gpu_hour = 2;
  question.limits = {1, 1};
  // A few hundred configurations.
  question.wanted = [](const SearchKeys& keys) {
    return keys.recompute == Recompute::none && keys.pipeline <= 2 && keys.tensor <= 4 && keys.zero <= 1 &&
           !keys.half_gradients;
  };
  return question;
}

StepTime step_of(double seconds) {
  StepTime time;
  time.step = {seconds};
  time.compute = {0.7 * seconds};
  time.exposed_tensor = {0.1 * seconds};
  time.exposed_pipeline = {0.05 * seconds};
  time.exposed_data = {0.03 * seconds};
  time.exposed_offload = {0.02 * seconds};
  time.optimizer = {0.1 * seconds};
  return time;
}

TEST(SizedJob, DaysAndHoursHaveClosedForms) {
  const SizeQuestion question = question_of("gpt2-124m", "h100-sxm-80gb");
  for (const int gpus : {8, 1024, 16384}) {
    const SizedJob job = job_of_step(question, gpus, 512, step_of(2));
    const Seconds step = slow_machines({2}, gpus).expected;
    const JobFailures failures =
        job_failures(question.job.fleet, gpus, question.job.recovery, question.job.checkpoint);
    const double effective = effective_share(
        failures, saves_of(question.job.checkpoint, best_interval(failures, question.job.checkpoint)));
    const double steps = 1e11 / (512.0 * 1024);
    EXPECT_DOUBLE_EQ(job.step.value, step.value);
    EXPECT_DOUBLE_EQ(job.effective, effective);
    EXPECT_NEAR(job.days, steps * step.value / effective / 86400, 1e-9 * job.days);
    const double all = job.days * 24 * gpus;
    EXPECT_NEAR(job.hours.sum(), all, 1e-9 * all);
    EXPECT_NEAR(*job.cost, 2 * all, 1e-9 * all);
    const double undisturbed = steps * 2 * gpus / 3600;
    EXPECT_NEAR(job.hours.compute, 0.7 * undisturbed, 1e-9 * all);
    EXPECT_NEAR(job.hours.tensor, 0.1 * undisturbed, 1e-9 * all);
    EXPECT_NEAR(job.hours.pipeline, 0.05 * undisturbed, 1e-9 * all);
    EXPECT_NEAR(job.hours.data, 0.05 * undisturbed, 1e-9 * all);
    EXPECT_NEAR(job.hours.optimizer, 0.1 * undisturbed, 1e-9 * all);
    EXPECT_NEAR(job.hours.slow, steps * (step.value - 2) * gpus / 3600, 1e-9 * all);
    EXPECT_NEAR(job.hours.failures, (1 - effective) * all, 1e-9 * all);
  }
}

TEST(SizedJob, TakesLongerWithMoreTokensFailuresAndGpus) {
  SizeQuestion question = question_of("gpt2-124m", "h100-sxm-80gb");
  const SizedJob job = job_of_step(question, 1024, 512, step_of(2));
  EXPECT_LT(job_of_step(question, 512, 512, step_of(2)).days, job.days);  // fewer failures, slow machines
  EXPECT_NEAR(job_of_step(question, 1024, 1024, step_of(2)).days, job.days / 2, 1e-9 * job.days);
  question.job.recovery.restart = {1000};
  EXPECT_GT(job_of_step(question, 1024, 512, step_of(2)).days, job.days);
  question.tokens *= 3;
  EXPECT_GT(job_of_step(question, 1024, 512, step_of(2)).days, 3 * job.days);
}

TEST(SizedJob, TheBatchIsAMultipleOfTheGpusWithinItsRange) {
  EXPECT_EQ(batch_for({2048, 2048}, 1536), 2048);
  EXPECT_EQ(batch_for({512, 2048}, 1024), 2048);
  EXPECT_EQ(batch_for({512, 2048}, 96), 2016);
  EXPECT_EQ(batch_for({512, 2048}, 1280), 1920);   // 640, half of the GPUs, three times
  EXPECT_EQ(batch_for({1900, 1953}, 1024), 1920);  // 128 times 15
  EXPECT_EQ(batch_for({1000, 1000}, 4096), 1000);
}

TEST(SizedJob, SaysWhyThereIsNone) {
  SizeQuestion question = question_of("llama-3.1-8b", "h100-sxm-80gb");
  std::string why;
  EXPECT_FALSE(size_job(question, 1, why));
  EXPECT_THAT(why, testing::HasSubstr("on 1 GPUs fits"));
  question.batch = {4, 4};
  EXPECT_FALSE(size_job(question, 1024, why));
  EXPECT_THAT(why, testing::HasSubstr("1024"));
}

TEST(Sizing, TheFewestGpusEqualThoseOfSizingEveryCount) {
  for (const char* hardware : {"h100-sxm-80gb", "a100-sxm-40gb"}) {
    for (const auto& [model, days] : {std::pair{"gpt2-124m", 3.0}, {"gpt2-1558m", 25.0}}) {
      SizeQuestion question = question_of(model, hardware);
      question.threads = 2;
      int told = 0;
      const Sizing sizing =
          size_for_days(question, days, 128, [&](int, const std::optional<SizedJob>&) { ++told; });
      EXPECT_GE(told, static_cast<int>(sizing.jobs.size()));
      int fewest = 0;
      std::string why;
      for (const int gpus : count_ladder(8, 128)) {
        const auto job = size_job(question, gpus, why);
        if (job && job->days <= days) {
          fewest = gpus;
          break;
        }
      }
      SCOPED_TRACE(std::string(model) + " " + hardware);
      ASSERT_GT(fewest, 1);
      EXPECT_EQ(sizing.fewest, fewest);
      if (sizing.fewest_if_short > 0) {
        EXPECT_LE(sizing.fewest_if_short, fewest);
      }
      if (sizing.fewest_if_long > 0) {
        EXPECT_GE(sizing.fewest_if_long, fewest);
      }
    }
  }
}

TEST(Sizing, TheFrontierKeepsWhatMoreGpusMakeFaster) {
  std::vector<SizedJob> jobs(4);
  for (std::size_t i = 0; i < 4; ++i) {
    jobs[i].gpus = 8 << i;
    jobs[i].days = std::vector{40.0, 22.0, 23.0, 12.0}[i];
  }
  std::vector<int> gpus;
  for (const SizedJob& job : frontier_of(jobs)) gpus.push_back(job.gpus);
  EXPECT_THAT(gpus, ElementsAre(8, 16, 64));
}

/// A count whose time is over has the best that was found, and others follow.
TEST(Sizing, ADeadlineEndsOneCountAlone) {
  SizeQuestion question = question_of("llama-3.1-8b", "h100-sxm-80gb");
  question.wanted = nullptr;
  Sizing sizing;
  for (const double deadline : {1e-3, 1e-2, 0.1}) {  // a slow machine finds one or none in the shortest
    if (sizing.jobs.size() > 1) break;
    question.deadline_s = deadline;
    sizing = size_for_days(question, 30, 128);
  }
  EXPECT_GT(std::ssize(sizing.jobs), 1);
  for (const SizedJob& job : sizing.jobs) EXPECT_FALSE(job.complete) << job.gpus;
}

TEST(Sizing, AStoppedOneEndsAtOnce) {
  SizeQuestion question = question_of("gpt2-124m", "h100-sxm-80gb");
  question.stopped = [] { return true; };
  EXPECT_TRUE(size_for_days(question, 1, 128).jobs.empty());
}

}  // namespace
}  // namespace plumbline::sizing_test
