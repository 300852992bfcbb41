// A run resumed from a checkpoint equals the uninterrupted run: to the bit in the same split, and to rounding
// in another.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>

#include "bench/plan/plan.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::checkpoint_run_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kSteps = 4;
constexpr int kSavedAfter = 2;

RunConfig small_run() {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 2;
  config.model.vocab = 37;  // padded
  config.parallel.make_vocab_size_divisible_by = 8;
  config.numerics.precision = DType::fp32;
  config.optimizer.learning_rate = 0.01;
  config.batch.seq_length = 8;
  config.batch.global_batch_size = 4;
  config.measure.warmup_steps = 1;
  config.measure.steps = kSteps - 1;
  return config;
}

TrainingResult run_of(const RunConfig& config, Communicator& communicator,
                      const CheckpointOptions& checkpoints) {
  const auto operators = make_cpu_operators();
  return train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {},
               nullptr, checkpoints);
}

/// A folder of the test's own, alike on all ranks, gone in the end.
class CheckpointRun : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    folder_ = fmt::format("{}/plumbline-checkpoint-run-{}", testing::TempDir(), world_);
    clear();
  }
  void TearDown() override { clear(); }
  void clear() const {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) fs::remove_all(folder_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  CheckpointOptions options(const char* name) const {
    return {.folder = folder_ + "/" + name, .interval = kSavedAfter};
  }

  int world_ = 1;
  int rank_ = 0;
  std::string folder_;
};

struct Split {
  const char* name;
  std::function<void(RunConfig&)> set;
};

/// A scale about as large as can be: every step without an overflow doubles it, every other one halves it.
void overflowing(RunConfig& config) {
  config.numerics.precision = DType::fp16;
  config.numerics.loss_scale = {{}, 262144, 1, 1, 1};
}

void adapted(RunConfig& config) {
  config.finetune = {Frozen::lora, 4, 8, LoraTargets::attention};
}

std::vector<Split> splits_of(int world) {
  const Split alone[] = {
      {"fp32", [](RunConfig&) {}},
      {"bf16, SGD",
       [](RunConfig& config) {
         config.numerics.precision = DType::bf16;
         config.optimizer.kind = Optimizer::sgd;
       }},
      {"fp16, some steps skipped", overflowing},
      {"FP8 with a history, dropout",
       [](RunConfig& config) {
         config.numerics.precision = DType::bf16;
         config.numerics.fp8.format = Fp8Format::hybrid;
         config.numerics.fp8.amax_history_len = 3;
         config.numerics.hidden_dropout = 0.1;
         config.numerics.attention_dropout = 0.1;
       }},
      {"written alongside", [](RunConfig&) {}},
      {"adapters", adapted},
      {"adapters of all layers, bf16",
       [](RunConfig& config) {
         config.finetune = {Frozen::canonical_lora, 4, 8, LoraTargets::all};
         config.numerics.precision = DType::bf16;
       }},
  };
  const Split pairs[] = {
      {"tp 2", [](RunConfig& config) { config.parallel.tensor = 2; }},
      {"tp 2 with sequence parallelism, GPT-2",
       [](RunConfig& config) {
         config.model = small_gpt2();
         config.model.layers = 2;
         config.parallel.tensor = 2;
         config.parallel.sequence_parallel = true;
       }},
      {"tp 2 of one key/value head",
       [](RunConfig& config) {
         config.parallel.tensor = 2;
         config.model.kv_heads = 1;
       }},
      {"pp 2, vocabulary over both",
       [](RunConfig& config) {
         config.parallel.pipeline = 2;
         config.parallel.pp.vocab_parallel = VocabPasses::one_barrier;
         config.parallel.pp.schedule = "1f1b";
       }},
      {"pp 2, FP8",
       [](RunConfig& config) {
         config.parallel.pipeline = 2;
         config.numerics.precision = DType::bf16;
         config.numerics.fp8.format = Fp8Format::e4m3;
       }},
      {"tp 2, adapters",
       [](RunConfig& config) {
         adapted(config);
         config.parallel.tensor = 2;
       }},
      {"dp 2, ZeRO 2, adapters, bf16",
       [](RunConfig& config) {
         adapted(config);
         config.parallel.dp.zero_stage = 2;
         config.numerics.precision = DType::bf16;
       }},
      {"dp 2, adapters beside experts over both",
       [](RunConfig& config) {
         adapted(config);
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.expert = 2;
       }},
      {"dp 2", [](RunConfig&) {}},
      {"dp 2, ZeRO 1", [](RunConfig& config) { config.parallel.dp.zero_stage = 1; }},
      {"dp 2, ZeRO 2, bf16",
       [](RunConfig& config) {
         config.parallel.dp.zero_stage = 2;
         config.numerics.precision = DType::bf16;
       }},
      {"dp 2, ZeRO 1, fp16, some steps skipped",
       [](RunConfig& config) {
         overflowing(config);
         config.parallel.dp.zero_stage = 1;
       }},
      {"dp 2, ZeRO 3, written alongside", [](RunConfig& config) { config.parallel.dp.zero_stage = 3; }},
      {"dp 2, experts over both",
       [](RunConfig& config) {
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.expert = 2;
       }},
      {"dp 2, experts over both, ZeRO 1, bf16",
       [](RunConfig& config) {
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.expert = 2;
         config.parallel.dp.zero_stage = 1;
         config.numerics.precision = DType::bf16;
       }},
      {"dp 2, experts over both, FP8",
       [](RunConfig& config) {
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.expert = 2;
         config.parallel.dp.zero_stage = 1;
         config.numerics.precision = DType::bf16;
         config.numerics.fp8.format = Fp8Format::hybrid;
         config.numerics.fp8.amax_history_len = 3;
       }},
      {"dp 2, experts over both, ZeRO 3",
       [](RunConfig& config) {
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.expert = 2;
         config.parallel.dp.zero_stage = 3;
       }},
      {"pp 2, modules that predict further tokens",
       [](RunConfig& config) {
         config.model.embedding.tied = false;
         config.model.prediction_modules = 2;
         config.parallel.pipeline = 2;
       }},
      {"dp 2, ZeRO 3, a module that predicts further tokens",
       [](RunConfig& config) {
         config.model.prediction_modules = 1;
         config.parallel.dp.zero_stage = 3;
       }},
      {"tp 2, experts over both, whole",
       [](RunConfig& config) {
         config.model = small_mixture(true);
         config.model.mixture.experts = 6;
         config.parallel.tensor = 2;
         config.parallel.sequence_parallel = true;
         config.parallel.expert = 2;
         config.parallel.expert_tensor = 1;
       }},
  };
  const auto cut = [](const char* name, int instances, int zero) {
    return Split{name, [instances, zero](RunConfig& config) {
                   config.parallel.dp.zero_stage = zero;
                   config.parallel.dp.optimizer_instances = instances;
                 }};
  };
  if (world == 1) return {std::begin(alone), std::end(alone)};
  if (world == 4) {
    return {cut("dp 4 in two instances, ZeRO 1", 2, 1),
            cut("dp 4 in two instances, ZeRO 3, written alongside", 2, 3),
            cut("dp 4 in four instances, ZeRO 2", 4, 2)};
  }
  return {std::begin(pairs), std::end(pairs)};
}

RunConfig config_of(const Split& split, int world) {
  RunConfig config = small_run();
  config.parallel.world_size = world;
  split.set(config);
  return config;
}

TEST_F(CheckpointRun, GoesOnToTheBitInTheSameSplit) {
  for (const Split& split : splits_of(world_)) {
    SCOPED_TRACE(split.name);
    const RunConfig config = config_of(split, world_);
    MpiCommunicator communicator(config.layout());
    CheckpointOptions whole = options("whole");
    whole.async = std::string(split.name).find("alongside") != std::string::npos;
    const TrainingResult undisturbed = run_of(config, communicator, whole);
    CheckpointOptions later = options("later");
    later.resume = step_folder(whole.folder, kSavedAfter);
    const TrainingResult resumed = run_of(config, communicator, later);
    EXPECT_EQ(resumed.losses, undisturbed.losses);
    EXPECT_EQ(resumed.loss_scale, undisturbed.loss_scale);
    if (resumed.loss_scale) {
      EXPECT_GT(resumed.loss_scale->skipped, 0);
      EXPECT_LT(resumed.loss_scale->skipped, kSteps);
    }
    EXPECT_EQ(resumed.step_times.size(), static_cast<std::size_t>(kSteps - kSavedAfter));
    EXPECT_EQ(resumed.checkpoints->resumed_step, kSavedAfter);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) {
      EXPECT_EQ(undisturbed.checkpoints->written, 2);
      // Weights, moments and FP8's history after the last step.
      const auto one = read_facts(step_folder(whole.folder, kSteps));
      const auto other = read_facts(step_folder(later.folder, kSteps));
      ASSERT_EQ(one.shards.size(), static_cast<std::size_t>(world_));
      for (std::size_t i = 0; i < one.shards.size(); ++i)
        EXPECT_EQ(one.shards[i].crc, other.shards[i].crc) << i;
    }
    clear();
  }
}

TEST_F(CheckpointRun, GoesOnInAnotherSplit) {
  for (const Split& split : splits_of(world_)) {
    SCOPED_TRACE(split.name);
    const RunConfig config = config_of(split, world_);
    if (config.numerics.precision != DType::fp32) continue;  // rounding differs by more
    MpiCommunicator communicator(config.layout());
    const TrainingResult undisturbed = run_of(config, communicator, options("whole"));
    CheckpointOptions later = options("later");
    later.resume = step_folder(options("whole").folder, kSavedAfter);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto expect_same = [&](const TrainingResult& resumed) {
      for (std::size_t i = 0; i < undisturbed.losses.size(); ++i)
        EXPECT_NEAR(resumed.losses.at(i), undisturbed.losses[i], 1e-5 * undisturbed.losses[i]) << i;
    };
    RunConfig alone = config;
    alone.parallel = small_run().parallel;
    if (rank_ == 0) {
      SoloCommunicator solo;
      expect_same(run_of(alone, solo, later));
    }
    clear();
    if (world_ == 1) continue;
    // From one rank to this split; the numbers of shards and ranks differ.
    CheckpointOptions single = options("single");
    if (rank_ == 0) {
      SoloCommunicator solo;
      run_of(alone, solo, single);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    later.resume = step_folder(single.folder, kSavedAfter);
    expect_same(run_of(config, communicator, later));
    clear();
  }
}

/// From one split of two ranks to another, or to one rank alone, with tensors rounded to fewer bits.
struct Passage {
  const char* name;
  std::function<void(RunConfig&)> numerics;
  std::function<void(ParallelConfig&)> from;
  std::function<void(ParallelConfig&)> to;  // empty: alone
  double bound;                             // of the losses, relative
};

void bf16(RunConfig& config) {
  config.numerics.precision = DType::bf16;
}
void fp8(RunConfig& config) {
  bf16(config);
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.numerics.fp8.amax_history_len = 3;
}

// With all sums in the same order nothing differs. Otherwise (products split by tp, or gradients summed over
// replicas instead of micro-batches) a value next to a rounding boundary of bf16 or FP8 comes out one step
// away. That is 2^-8 of the value, and much less of the mean loss of a few steps.
TEST_F(CheckpointRun, GoesOnInAnotherSplitOfLowPrecision) {
  if (world_ != 2) return;
  const auto plain = [](ParallelConfig&) {};
  const auto tp = [](ParallelConfig& parallel) { parallel.tensor = 2; };
  const auto pp = [](ParallelConfig& parallel) { parallel.pipeline = 2; };
  const auto zero = [](int stage) {
    return [stage](ParallelConfig& parallel) { parallel.dp.zero_stage = stage; };
  };
  constexpr double kRounding = 1e-5;
  const Passage passages[] = {
      {"bf16: dp 2 to ZeRO 3", bf16, plain, zero(3), 0},
      {"bf16: ZeRO 2 to dp 2", bf16, zero(2), plain, 0},
      {"bf16: pp 2 to one rank", bf16, pp, {}, 0},
      {"bf16: tp 2 to one rank", bf16, tp, {}, kRounding},
      {"bf16: tp 2 to dp 2", bf16, tp, plain, kRounding},
      {"bf16: ZeRO 1 to pp 2", bf16, zero(1), pp, kRounding},
      {"FP8: ZeRO 1 to ZeRO 3", fp8, zero(1), zero(3), 0},
      {"FP8: pp 2 to one rank", fp8, pp, {}, 0},
      {"FP8: tp 2 to one rank", fp8, tp, {}, kRounding},
      {"FP8: dp 2 to tp 2", fp8, plain, tp, kRounding},
      {"FP8: ZeRO 2 to pp 2", fp8, zero(2), pp, kRounding},
  };
  for (const Passage& passage : passages) {
    SCOPED_TRACE(passage.name);
    RunConfig from = small_run();
    from.model.embedding.tied = false;  // tied ones sum two stages' gradients in an order of their own
    from.parallel.world_size = world_;
    passage.numerics(from);
    RunConfig to = from;
    passage.from(from.parallel);
    MpiCommunicator communicator(from.layout());
    const TrainingResult undisturbed = run_of(from, communicator, options("whole"));
    CheckpointOptions later = options("later");
    later.resume = step_folder(options("whole").folder, kSavedAfter);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto expect_same = [&](const TrainingResult& resumed) {
      ASSERT_EQ(resumed.losses.size(), undisturbed.losses.size());
      double worst = 0;
      for (std::size_t i = 0; i < resumed.losses.size(); ++i)
        worst = std::max(worst, std::abs(resumed.losses[i] / undisturbed.losses[i] - 1));
      EXPECT_LE(worst, passage.bound);
      if (rank_ == 0) fmt::print("{}: losses {:.1e}\n", passage.name, worst);
    };
    if (passage.to) {
      passage.to(to.parallel);
      MpiCommunicator other(to.layout());
      expect_same(run_of(to, other, later));
    } else if (rank_ == 0) {
      to.parallel = small_run().parallel;
      SoloCommunicator solo;
      expect_same(run_of(to, solo, later));
    }
    clear();
  }
}

TEST_F(CheckpointRun, BadInputIsOneLineBeforeAnythingRuns) {
  if (world_ > 1) return;
  SoloCommunicator solo;
  const RunConfig config = config_of(splits_of(1).front(), 1);
  const CheckpointOptions saved = options("saved");
  run_of(config, solo, saved);
  const auto refusal = [&](CheckpointOptions wanted, const RunConfig& asked) -> std::string {
    try {
      prepare_checkpoints(wanted, asked);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(saved, config), HasSubstr("expected none without --resume"));
  CheckpointOptions again = saved;
  again.resume_newest = true;
  EXPECT_THAT(refusal(again, config), HasSubstr("of step 4, expected an earlier step than the last, 4"));
  RunConfig longer = config;
  longer.measure.steps = 9;
  EXPECT_EQ(refusal(again, longer), "");
  struct Other {
    const char* said;
    std::function<void(RunConfig&)> change;
  };
  const Other others[] = {
      {"found model.hidden_size 64, expected 32", [](RunConfig& c) { c.model.hidden = 32; }},
      {"found seq_length 8, expected 16", [](RunConfig& c) { c.batch.seq_length = 16; }},
      {"found precision fp32, expected bf16", [](RunConfig& c) { c.numerics.precision = DType::bf16; }},
      {"found optimizer adam", [](RunConfig& c) { c.optimizer.kind = Optimizer::sgd; }},
      {"found seed 1234", [](RunConfig& c) { c.measure.seed = 1; }},
      {"backend emulated, which computes no values",
       [](RunConfig& c) { c.machine.backend = Backend::emulated; }},
  };
  for (const Other& other : others) {
    RunConfig changed = longer;
    other.change(changed);
    EXPECT_THAT(refusal(again, changed), HasSubstr(other.said));
  }
  CheckpointOptions nowhere = options("saved/iter_0000002/metadata.json");
  EXPECT_THAT(refusal(nowhere, config), HasSubstr("--checkpoint-dir: "));
  CheckpointOptions homeless;
  homeless.interval = 2;
  EXPECT_THAT(refusal(homeless, config), HasSubstr("--checkpoint-dir: missing"));
  RunConfig huge = config;
  huge.model.vocab = std::int64_t{1} << 46;  // more than any disk has
  EXPECT_THAT(refusal(options("fresh"), huge), HasSubstr("more checkpoints of"));
}

}  // namespace
}  // namespace plumbline::training::checkpoint_run_test
