// Results of a whole run: the loss of every step, the gradients of the last one, and an end with a reason
// when numbers stop being finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "bench/plan/plan.hpp"
#include "bench/training/trainer/busy_share.hpp"
#include "bench/training/trainer/rehearsal.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::whole_run_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// All ranks in one pipeline.
RunConfig pipeline_of_all() {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 4;
  config.parallel.world_size = config.parallel.pipeline = world_ranks();
  config.parallel.make_vocab_size_divisible_by = 8;
  config.numerics.precision = DType::fp32;
  config.optimizer.kind = Optimizer::sgd;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 4;
  config.measure.warmup_steps = 1;
  config.measure.steps = 2;
  return config;
}

TrainingResult run_of(const RunConfig& config, Communicator& communicator) {
  const auto operators = make_cpu_operators();
  return train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
}

std::string error_of(const RunConfig& config, Communicator& communicator) {
  try {
    run_of(config, communicator);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The same on every rank, gone when all are through.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& communicator)
      : communicator_(communicator),
        path_(fmt::format("{}/plumbline-whole-run-{}", testing::TempDir(), communicator.layout().world())) {}
  ~SharedFolder() {
    communicator_.barrier(Group::world);
    if (communicator_.rank() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  Communicator& communicator_;
  std::string path_;
};

TEST(WholeRun, ARehearsalChangesNothing) {
  RunConfig config = pipeline_of_all();
  config.optimizer.kind = Optimizer::adam;
  MpiCommunicator communicator(config.layout());
  const TrainingResult plain = run_of(config, communicator);
  const auto operators = make_cpu_operators();
  rehearse(config, schedule_for(config), *operators, communicator, communicator, host_memory(), nullptr,
           nullptr);
  const TrainingResult rehearsed =
      train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  EXPECT_EQ(rehearsed.losses, plain.losses);
  EXPECT_EQ(rehearsed.gradient_norm, plain.gradient_norm);
}

TEST(WholeRun, SavesTheGradientsOfTheLastStepAndKeepsTheLossOfEveryStep) {
  RunConfig config = pipeline_of_all();
  config.optimizer.learning_rate = 0;  // the saved weights are those of every step; only the tokens differ
  MpiCommunicator communicator(config.layout());
  const SharedFolder folder(communicator);
  std::filesystem::create_directories(folder.path());
  config.files.save_weights = folder.path();
  config.files.save_gradients = folder.path() + "/gradients.safetensors";
  const TrainingResult result = run_of(config, communicator);
  ASSERT_EQ(result.losses.size(), 3U);
  EXPECT_EQ(result.step_times.size(), 2U);
  communicator.barrier(Group::world);

  RunConfig again = config;
  again.files = {};
  again.files.weights = folder.path() + "/model.safetensors";
  const StepResult first = last_step(again, 1, communicator);
  const StepResult last = last_step(again, 3, communicator);
  EXPECT_NEAR(result.losses.front(), first.loss, 1e-5);
  EXPECT_NEAR(result.losses.back(), last.loss, 1e-5);
  if (communicator.rank() != 0) return;
  const Tensors saved = tensors_of(config.files.save_gradients);
  expect_gradients(last.gradients, saved, 1e-5);
  std::string worst;
  EXPECT_GT(largest_error(first.gradients, saved, worst), 1e-2) << worst;
}

/// AdamW's first step (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2): the corrected moments are g and
/// g².
float first_update(float weight, float gradient, double rate, double decay) {
  const double g = gradient;
  return static_cast<float>(weight * (1 - rate * decay) - rate * g / (std::abs(g) + 1e-8));
}

TEST(WholeRun, TheFirstStepIsAdamWWithDecayOfMatricesOnly) {
  RunConfig config = pipeline_of_all();
  config.optimizer = {Optimizer::adam, 0, 0.5, 0};
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  MpiCommunicator communicator(config.layout());
  const SharedFolder folder(communicator);
  config.files.save_weights = folder.path() + "-before";
  run_of(config, communicator);
  config.optimizer.learning_rate = 0.1;
  config.files.save_weights = folder.path();
  config.files.save_gradients = folder.path() + ".gradients";
  run_of(config, communicator);
  if (communicator.rank() != 0) return;
  const Tensors before = tensors_of(folder.path() + "-before");
  const Tensors after = tensors_of(folder.path());
  const Tensors gradients = tensors_of(folder.path() + ".gradients");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, weights] : before) {
    const bool vector = name.ends_with("bias") || name.find("norm") != std::string::npos;
    const std::vector<float>& gradient = gradients.at(name);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (std::abs(gradient[i]) < 1e-6F) continue;  // close to epsilon the rounding of g counts
      ASSERT_NEAR(after.at(name)[i], first_update(weights[i], gradient[i], 0.1, vector ? 0 : 0.5), 2e-5)
          << name << i;
    }
  }
  for (const char* ending : {"-before", ".gradients"}) std::filesystem::remove_all(folder.path() + ending);
}

TEST(WholeRun, NumbersThatAreNotFiniteEndItWithTheFirstPlace) {
  RunConfig config = pipeline_of_all();
  config.optimizer.learning_rate = 1e25;  // the first update leaves weights whose products overflow
  config.optimizer.clip_grad = 0;
  MpiCommunicator communicator(config.layout());
  const std::string place = config.parallel.pipeline > 1
                                ? "first seen in the message"
                                : "first seen in the loss of a micro-batch, action 0F0";
  EXPECT_THAT(error_of(config, communicator),
              AllOf(HasSubstr("not finite: step 2 of 3 has loss"), HasSubstr(place), HasSubstr("rank 0")));
}

TEST(WholeRun, WeightsThatAreNotFiniteAreRefusedByName) {
  RunConfig config = pipeline_of_all();
  MpiCommunicator communicator(config.layout());
  const SharedFolder folder(communicator);
  config.files.save_weights = folder.path();
  run_of(config, communicator);
  communicator.barrier(Group::world);
  if (communicator.rank() != 0) return;
  // One rank reads the whole model: on several the one that refuses would leave the others waiting.
  RunConfig alone = config;
  alone.parallel.world_size = alone.parallel.pipeline = 1;
  alone.files = {};
  alone.files.weights = folder.path() + "/model.safetensors";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fstream file(alone.files.weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  file.close();
  SoloCommunicator solo;
  EXPECT_THAT(error_of(alone, solo),
              AllOf(HasSubstr("tensor "), HasSubstr("holds nan"), HasSubstr("expected finite numbers")));
}

TEST(WholeRun, WaitsOfRanksThatAreNotTracedAreSharesOfTheirOwnTime) {
  // The traced rank computes 4 of 5 seconds; the other waits longer than the traced one is busy.
  const std::vector<BusyTime> ranks = {{{5}, {1}}, {{20}, {18}}};
  const BusyTime mean = mean_shares(ranks, {5});
  EXPECT_DOUBLE_EQ(mean.busy.value, 5);
  EXPECT_DOUBLE_EQ(mean.tensor_communication.value, 5.0 * (1 + 18) / (5 + 20));
  EXPECT_LT(mean.tensor_communication.value, mean.busy.value);
}

}  // namespace
}  // namespace plumbline::training::whole_run_test
