// Iteration lines of five frameworks give back their figures.
#include "analysis/diagnose/logs/iteration_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::iteration_log_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  const char* text;
  const char* framework;
  std::int64_t iteration;
  double IterationLine::*member;
  double value;
};
constexpr double kGiB = 1024.0 * 1024 * 1024;
const Line kLines[] = {
    {" [2026-01-02 03:04:05] iteration       20/     100 | consumed samples:  5120 | elapsed time per "
     "iteration "
     "(ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.0E-05 | global batch size:   "
     "256 "
     "| lm loss: 1.05E+01 |",
     "megatron-lm", 20, &IterationLine::step_s, 1.2345},
    {"[default0]: iteration 3/ 9 | elapsed time per iteration (ms): 2.0 | throughput per GPU (TFLOP/s/GPU): "
     "412.3 |",
     "megatron-lm", 3, &IterationLine::tflops_per_gpu, 412.3},
    {"Training epoch 0, iteration 10/99 | lr: 3e-05 | global_batch_size: 64 | global_step: 11 | "
     "reduced_train_loss: 9.1 | train_step_timing in s: 1.52 | consumed_samples: 704",
     "nemo", 11, &IterationLine::step_s, 1.52},
    {"\x1b[31mstep: 10 \x1b[32mloss:  7.9  \x1b[33mmemory: 10.50GiB(13.2%)  \x1b[34mtps: 5,432  "
     "\x1b[36mtflops: 123.4  \x1b[35mmfu: 12.4%\x1b[39m",
     "torchtitan", 10, &IterationLine::tokens_per_s, 5432},
    {"[rank0]:step: 11 loss: 7.8 memory: 10.50GiB(13.2%) tps: 5,000 tflops: 1.0 mfu: 1%", "torchtitan", 11,
     &IterationLine::memory_bytes, 10.5 * kGiB},
    {"[2026-01-02 03:04:05,678] [INFO] [timer.py:264:stop] epoch=0/micro_step=40/global_step=10, "
     "RunningAvgSamplesPerSec=31.5, CurrSamplesPerSec=32.25, MemAllocated=4.1GB, MaxMemAllocated=9.5GB",
     "deepspeed", 10, &IterationLine::samples_per_s, 32.25},
    {"steps: 30 loss: 2.5312 iter time (s): 0.750 samples/sec: 42.667", "deepspeed", 30,
     &IterationLine::step_s, 0.75},
    {" 12%|#2        | 12/100 [00:15<01:50,  1.25s/it]", "trainer", 12, &IterationLine::step_s, 1.25},
    {" 12%|#2        | 12/100 [00:15<01:50,  4.00it/s]", "trainer", 12, &IterationLine::step_s, 0.25},
};

TEST(IterationLog, ReadsTheLinesOfFiveFrameworks) {
  for (const Line& line : kLines) {
    IterationLine read{};
    std::string_view framework;
    ASSERT_TRUE(read_iteration(line.text, read, framework)) << line.text;
    EXPECT_EQ(framework, line.framework);
    EXPECT_EQ(read.iteration, line.iteration) << line.text;
    EXPECT_NEAR(read.*line.member, line.value, 1e-9 * line.value) << line.text;
  }
  for (const char* other :
       {"", "loss: 3", "elapsed time per iteration (ms): nan", "elapsed time per iteration (ms): 0",
        "[INFO] starting", "step: x loss: y tps: z"}) {
    IterationLine read{};
    std::string_view framework;
    EXPECT_FALSE(read_iteration(other, read, framework)) << other;
  }
}

TEST(IterationLog, SumsUpStepsWithDriftAndOutliers) {
  const test::TemporaryFolder folder;
  std::string text = "setting up\n";
  for (int i = 1; i <= 60; ++i) {
    const double ms = i <= 2 ? 9000 : i == 30 ? 3000 : 1000 + (i > 40 ? 100 : 0) + i % 2;
    text += fmt::format(" iteration {}/ 60 | elapsed time per iteration (ms): {} |\n", i, ms);
  }
  const IterationSummary made = summary_of(read_iteration_log(folder.write("a.log", text)), 0, 0);
  EXPECT_EQ(made.framework, "megatron-lm");
  EXPECT_EQ(made.warm_up, 6);
  EXPECT_EQ(made.iterations, 54);
  EXPECT_NEAR(made.median_s, 1.001, 2e-3);
  EXPECT_NEAR(made.drift, 0.1, 5e-3);
  ASSERT_EQ(made.outliers.size(), 1U);
  EXPECT_EQ(made.outliers[0].iteration, 30);
}

TEST(IterationLog, TakesStepTimesFromRatesAndTheBatch) {
  const test::TemporaryFolder folder;
  const std::string rates =
      "step: 1 loss: 9 tps: 1,000\nstep: 2 loss: 9 tps: 2,000\nstep: 3 loss: 9 tps: 2,000\n";
  const IterationLog log = read_iteration_log(folder.write("t.log", rates));
  EXPECT_NEAR(summary_of(log, 8192, 0).median_s, 4.096, 1e-9);
  EXPECT_THROW(summary_of(log, 0, 0), InputError);
}

TEST(IterationLog, RefusesOtherFilesInOneLine) {
  const test::TemporaryFolder folder;
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same every time
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (const Line& line : kLines) text += std::string(line.text) + "\n";
    for (int n = 0; n < 200; ++n)
      text[std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random)] =
          static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    try {
      summary_of(read_iteration_log(folder.write(fmt::format("{}.log", i), text)), 0, 0);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    }
  }
  for (const std::string& path : {folder.write("no.log", "nothing\n"), std::string("/nowhere.log")})
    EXPECT_THROW(read_iteration_log(path), InputError);
}

}  // namespace
}  // namespace plumbline::iteration_log_test
