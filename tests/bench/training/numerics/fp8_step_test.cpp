// Linear layers in FP8: every split and every way to run the step give the single rank's loss and
// gradients, and training goes as in 16 bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::fp8_step_test {
namespace {

enum class Model { qwen2, gpt2, mixture, shared, dense_first, latent, biased };

ModelConfig model_of(Model kind) {
  if (kind == Model::gpt2) return small_gpt2();
  if (kind == Model::qwen2) return small_qwen2();
  const bool latent = kind == Model::latent || kind == Model::biased;
  const bool dense_first = latent || kind == Model::dense_first;
  ModelConfig model = dense_first ? small_deepseek(latent) : small_mixture(kind == Model::shared);
  if (latent) {
    model.latent = {32, 16, 16, 16, 48};
    model.head_dim = 32;
    model.rotary.dim = 16;
  }
  model.ffn = 32;
  model.mixture.experts = 8;
  model.mixture.expert_bias = kind == Model::biased;
  if (kind == Model::shared) model.architecture = "qwen2_moe";
  if (kind != Model::mixture) model.mixture.shared = 32;
  model.mixture.first_dense = dense_first ? 1 : 0;
  model.mixture.dense_ffn = dense_first ? 96 : 0;
  return model;
}

RunConfig config_of(Model model, int layers, int microbatches) {
  RunConfig config;
  config.model = model_of(model);
  config.model.layers = layers;
  config.numerics.precision = DType::fp32;
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.optimizer.kind = Optimizer::sgd;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = microbatches;
  config.parallel.make_vocab_size_divisible_by = 8;
  return config;
}

/// A way to run the step: a layout and more.
struct Way {
  Layout layout;
  const char* schedule = "1f1b";
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  int zero = 0;
  bool dropout = false;
  Model model = Model::qwen2;
  const char* vocab = "none";
  Fp8Format format = Fp8Format::hybrid;
  int expert = 1;
  RecomputeModules modules = kCoreAttention;  // of selective recomputation
  bool gathers = false;                       // values, in the first forward
  int predicts = 0;                           // MTP modules
  bool pairs = false;                         // whose exchanges of experts overlap
  /// Where a number next to a rounding boundary moves many others, other draws of weights and tokens agree
  /// to 1e-3 or 3e-2 only.
  std::uint64_t seed = 1234;

  std::string name(const char* recipe) const {
    return fmt::format(
        "{} tp{} pp{} dp{}/cp{} {} sp{:d} recompute{} zero{} dropout{:d} model {} {} {} ep{} mtp{}", recipe,
        layout.tensor, layout.pipeline, layout.data, layout.context, schedule, sequence_parallel,
        static_cast<int>(recompute), zero, dropout, static_cast<int>(model), vocab,
        format == Fp8Format::hybrid ? "hybrid" : "e4m3", expert, predicts);
  }
  /// As few as the schedule takes: ranks that share a processor wait for each other.
  int layers() const { return layout.pipeline > 2 || schedule == std::string("zb-v") ? 4 : 2; }
  /// The same numbers on one rank.
  RunConfig alone() const {
    RunConfig config = config_of(model, layers(), pairs ? 16 : layout.pipeline > 2 ? 8 : 4);
    if (layout.context > 1) config.batch.seq_length = std::int64_t{16} * layout.context;
    config.model.prediction_modules = predicts;
    config.measure.seed = seed;
    config.numerics.fp8.format = format;
    set_dropout(config, kDropouts[dropout ? 1 : 0]);
    return config;
  }
  /// The same layout without anything else.
  RunConfig plain() const {
    RunConfig config = alone();
    set_layout(config, layout);
    config.parallel.context = layout.context;
    config.parallel.expert = expert;
    return config;
  }
  RunConfig config() const {
    RunConfig config = plain();
    config.parallel.pp.schedule = schedule;
    config.parallel.sequence_parallel = sequence_parallel;
    config.recompute.granularity = recompute;
    config.recompute.modules = modules;
    config.parallel.dp.zero_stage = zero;
    if (gathers) config.parallel.dp.overlap_param_gather = true;
    config.parallel.ep.overlap_comm = pairs;
    config.parallel.pp.vocab_parallel = parse_vocab_parallel(vocab);
    return config;
  }
};

const std::vector<Way> kWays = {
    {.layout = {1, 1, 1}, .recompute = Recompute::full},
    {.layout = {1, 1, 1}, .recompute = Recompute::selective, .model = Model::gpt2, .format = Fp8Format::e4m3},
    {.layout = {1, 1, 1}, .schedule = "zb-h1", .recompute = Recompute::full, .dropout = true},
    {.layout = {1, 1, 1},
     .schedule = "zb-h1",
     .recompute = Recompute::selective,
     .modules = {.layernorm = true, .mlp = true}},
    {.layout = {1, 1, 1},
     .recompute = Recompute::selective,
     .model = Model::latent,
     .modules = {.core_attn = true, .layernorm = true, .mla_up_proj = true, .moe = true}},
    {.layout = {2, 1, 1},
     .sequence_parallel = true,
     .recompute = Recompute::selective,
     .model = Model::shared,
     .modules = {.moe_act = true, .layernorm = true, .shared_experts = true}},
    {.layout = {2, 1, 1}, .recompute = Recompute::full},
    {.layout = {2, 1, 1}, .sequence_parallel = true, .dropout = true},
    {.layout = {2, 1, 1}, .schedule = "zb-h1", .sequence_parallel = true, .model = Model::gpt2},
    {.layout = {1, 2, 1}, .recompute = Recompute::full, .model = Model::gpt2},
    {.layout = {1, 2, 1}, .schedule = "zb-v", .dropout = true, .format = Fp8Format::e4m3},
    {.layout = {1, 2, 1}, .vocab = "vocab-2"},
    {.layout = {1, 1, 2}, .model = Model::gpt2},
    {.layout = {1, 1, 2}, .zero = 1, .dropout = true},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 2, .gathers = true},
    {.layout = {.data = 4, .context = 1}, .zero = 1, .model = Model::shared, .expert = 2, .gathers = true},
    {.layout = {1, 1, 2}, .recompute = Recompute::full, .zero = 2},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .recompute = Recompute::selective, .zero = 3},
    {.layout = {.data = 2, .context = 2}, .schedule = "zb-h1", .recompute = Recompute::full, .zero = 1},
    {.layout = {1, 4, 1}, .schedule = "dualpipe", .dropout = true},
    {.layout = {2, 2, 1}, .schedule = "zb-h1", .sequence_parallel = true, .recompute = Recompute::full},
    {.layout = {2, 1, 2}, .sequence_parallel = true, .zero = 3, .model = Model::gpt2},
    {.layout = {1, 2, 2}, .schedule = "zb-h1", .zero = 2},
    {.layout = {1, 1, 1}, .recompute = Recompute::full, .model = Model::shared},
    {.layout = {1, 1, 1}, .schedule = "zb-h1", .model = Model::dense_first, .format = Fp8Format::e4m3},
    {.layout = {2, 1, 1}, .schedule = "zb-h1", .sequence_parallel = true, .model = Model::shared},
    {.layout = {1, 2, 1}, .schedule = "zb-v", .model = Model::shared},
    {.layout = {1, 1, 2}, .zero = 3, .model = Model::mixture},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 1, .model = Model::shared, .expert = 2},
    {.layout = {1, 1, 2}, .recompute = Recompute::full, .zero = 3, .model = Model::dense_first, .expert = 2},
    {.layout = {1, 4, 1}, .schedule = "dualpipe", .model = Model::dense_first},
    {.layout = {2, 1, 2}, .sequence_parallel = true, .model = Model::shared, .expert = 2},
    {.layout = {1, 1, 1}, .recompute = Recompute::full, .model = Model::latent},
    {.layout = {1, 1, 1},
     .schedule = "zb-h1",
     .recompute = Recompute::selective,
     .model = Model::latent,
     .format = Fp8Format::e4m3},
    {.layout = {2, 1, 1}, .model = Model::latent},
    {.layout = {2, 1, 1},
     .schedule = "zb-h1",
     .sequence_parallel = true,
     .recompute = Recompute::full,
     .model = Model::latent},
    {.layout = {1, 2, 1}, .schedule = "zb-v", .model = Model::latent},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 3, .model = Model::latent},
    {.layout = {2, 1, 2}, .sequence_parallel = true, .zero = 3, .model = Model::latent, .expert = 2},
    {.layout = {1, 1, 1}, .schedule = "zb-h1", .model = Model::latent, .predicts = 2},
    {.layout = {2, 1, 1}, .sequence_parallel = true, .recompute = Recompute::full, .predicts = 1, .seed = 3},
    {.layout = {1, 2, 1}, .model = Model::shared, .predicts = 1},
    {.layout = {1, 1, 2}, .zero = 2, .model = Model::latent, .expert = 2, .gathers = true, .predicts = 1},
    // MLPerf's DeepSeek-V3
    {.layout = {1, 2, 4},
     .zero = 1,
     .model = Model::biased,
     .expert = 4,
     .gathers = true,
     .predicts = 1,
     .pairs = true},
};

/// Error over all gradients together: the root mean square of the differences, over that of the reference.
double overall_error(const StepResult& reference, const StepResult& found) {
  double squares = 0;
  double differences = 0;
  for (const auto& [name, expected] : reference.gradients) {
    const std::vector<float>& values = found.gradients.at(name);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      squares += std::pow(static_cast<double>(expected[i]), 2);
      differences += std::pow(static_cast<double>(expected[i]) - values[i], 2);
    }
  }
  return std::sqrt(differences / squares);
}

/// Compares a way with the single rank. If products are split and their sums have another order, a number
/// next to a rounding boundary comes out one step of its type away. Its successors move with it. There the
/// tight comparison is with the same layout, and that with the single rank is loose. A split vocabulary has
/// only this.
template <class Step>
void compare(const Way& way, const char* recipe, double loose, const Step& step) {
  constexpr double kTight = 1e-5;
  const std::string name = way.name(recipe);
  const StepResult alone = step_of_first_rank([&] {
    SoloCommunicator solo;
    return step(way.alone(), solo);
  });
  MpiCommunicator communicator(way.config().layout());
  const StepResult found = step(way.config(), communicator);
  const bool same_layout = way.layout.tensor > 1 || way.layout.context > 1 || way.expert > 1;
  const StepResult reference = same_layout ? step(way.plain(), communicator) : alone;
  if (communicator.rank() != 0) return;
  std::string worst;
  const double tight = largest_error(reference.gradients, found.gradients, worst);
  const double rounding = overall_error(alone, found);
  fmt::print("{}: gradients {:.1e}, from one rank's {:.1e}\n", name, tight, rounding);
  if (!way.config().parallel.splits_vocabulary()) {
    EXPECT_NEAR(found.loss / reference.loss, 1, kTight) << name;
    EXPECT_LE(tight, kTight) << name << ": " << worst;
  }
  EXPECT_NEAR(found.loss / alone.loss, 1, loose) << name;
  EXPECT_LE(rounding, loose) << name;
}

std::vector<Way> ways_here() {
  std::vector<Way> here;
  for (const Way& way : kWays) {
    if (way.layout.world() == world_ranks()) here.push_back(way);
  }
  return here;
}

// In the first step scales come from the first tensor that a rank sees, which depends on the split. Later a
// slot has the same scale in every split once the tensors before it had, a step earlier. With a history of
// one step and fixed weights, agreement spreads by one slot a step, down the forward and up the backward.
TEST(Fp8Step, DelayedScalesSettleToTheSingleRanks) {
  for (const Way& way : ways_here()) {
    compare(way, "delayed", 1e-2, [&](RunConfig config, Communicator& communicator) {
      config.numerics.fp8.amax_history_len = 1;
      config.optimizer.learning_rate = 0;
      config.mixture.bias_update_rate = 0;  // which would send tokens elsewhere in every step
      const int slots = config.model.latent ? 10 : 8;
      return last_step(config, 2 + slots * (way.layers() + way.predicts), communicator);
    });
  }
}

// Tensor and context ranks that split a tensor have scales of their own, so its numbers are rounded
// differently. The root mean square error is 2^-3/sqrt(3) of a number in E5M2, half of that in E4M3. This
// holds in every product on the way, here and on the single rank.
TEST(Fp8Step, ScalesOfTheTensorItselfAreTheSingleRanks) {
  for (const Way& way : ways_here()) {
    compare(way, "tensorwise", 0.25, [&](RunConfig config, Communicator& communicator) {
      config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
      return one_step(config, communicator);
    });
  }
}

// Rounded like the numbers above, no gradient of a matrix is off by as much as with a missing or a wrong
// part. All experts are chosen, which rounding cannot change.
TEST(Fp8Step, GradientsAreThoseOfFp32ButForRounding) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank is enough";
  for (const Model model : {Model::dense_first, Model::latent}) {
    for (const char* const schedule : {"1f1b", "zb-h1"}) {
      RunConfig config = config_of(model, 2, 4);
      config.parallel.pp.schedule = schedule;
      Mixture& mixture = config.model.mixture;
      mixture.top_k = mixture.experts;
      mixture.chosen_groups = mixture.groups;
      config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
      SoloCommunicator solo;
      const StepResult found = one_step(config, solo);
      config.numerics.fp8.format = Fp8Format::none;
      const StepResult reference = one_step(config, solo);
      EXPECT_LE(overall_error(reference, found), 0.25);
      for (const auto& [name, gradient] : reference.gradients) {
        if (!name.ends_with("proj.weight") && !name.ends_with("proj_with_mqa.weight")) continue;
        StepResult one;
        one.gradients[name] = gradient;
        const double error = overall_error(one, found);
        fmt::print("model {} {} {}: {:.3f}\n", static_cast<int>(model), schedule, name, error);
        EXPECT_LE(error, 0.5) << name;
      }
    }
  }
}

TEST(Fp8Step, GradientsOfFoldedExpertsAreThoseOfFp32ButForRounding) {
  if (world_ranks() != 2) GTEST_SKIP() << "two ranks show it";
  struct Folded {
    Layout layout;
    int expert, slices;
  };
  for (const Folded& folded : {Folded{{2, 1, 1}, 2, 1}, Folded{{2, 1, 1}, 1, 1}, Folded{{1, 1, 2}, 1, 2}}) {
    RunConfig config = config_of(Model::shared, 2, 4);
    config.model.mixture.top_k = config.model.mixture.experts;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
    RunConfig plain = config;
    plain.numerics.fp8.format = Fp8Format::none;
    const StepResult reference = step_of_first_rank([&] {
      SoloCommunicator solo;
      return one_step(plain, solo);
    });
    set_layout(config, folded.layout);
    config.parallel.sequence_parallel = folded.layout.tensor > 1;
    config.parallel.expert = folded.expert;
    config.parallel.expert_tensor = folded.slices;
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    if (communicator.rank() != 0) continue;
    const double error = overall_error(reference, found);
    fmt::print("tp{} ep{} etp{}: {:.3f}\n", folded.layout.tensor, folded.expert, folded.slices, error);
    EXPECT_LE(error, 0.25);
    EXPECT_NEAR(found.loss / reference.loss, 1, 1e-2);
  }
}

// Forty steps of training amplify every rounding. The distance of one curve from bf16's at its worst step is
// chance, and differs between processors (2 to 6 % over eight seeds). Averaged over seeds each step agrees,
// and over steps more so.
TEST(Fp8Step, TrainsLikeBf16) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank is enough";
  constexpr std::uint64_t kSeeds = 4;
  constexpr std::size_t kSteps = 40;
  const auto losses = [](std::uint64_t seed, Fp8Format format, Fp8Recipe recipe) {
    RunConfig config = config_of(Model::qwen2, 2, 8);
    config.measure.seed = seed;
    config.model.init_std = 0.08;
    config.numerics.precision = DType::bf16;
    config.files.data =
        fmt::format("{}/tests/golden/qwen2/tokens.npy", PLUMBLINE_SOURCE_DIR);  // every step the same
    config.numerics.fp8.format = format;
    config.numerics.fp8.recipe = recipe;
    config.numerics.fp8.amax_history_len = 4;
    config.optimizer.kind = Optimizer::adam;
    config.optimizer.learning_rate = 3e-3;
    config.measure.steps = static_cast<int>(kSteps);
    config.measure.warmup_steps = 0;
    SoloCommunicator solo;
    const auto operators = make_cpu_operators();
    return train(config, schedule_for(config), *operators, solo, solo, host_memory(), {}).losses;
  };
  for (const Fp8Format format : {Fp8Format::hybrid, Fp8Format::e4m3}) {
    for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::tensorwise}) {
      std::vector<double> difference(kSteps, 0);  // of the logarithms, mean over seeds
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const std::vector<double> bf16 = losses(seed, Fp8Format::none, recipe);
        const std::vector<double> fp8 = losses(seed, format, recipe);
        ASSERT_EQ(fp8.size(), kSteps);
        ASSERT_LT(bf16.back(), 0.6 * bf16.front());
        for (std::size_t step = 0; step < kSteps; ++step) {
          difference[step] += std::log(fp8[step] / bf16[step]) / kSeeds;
        }
      }
      const double mean = std::accumulate(difference.begin(), difference.end(), 0.0) / kSteps;
      fmt::print("{} {}: mean {:+.4f}, last {:+.4f}\n", format == Fp8Format::hybrid ? "hybrid" : "e4m3",
                 recipe == Fp8Recipe::delayed ? "delayed" : "tensorwise", mean, difference.back());
      EXPECT_NEAR(mean, 0, 0.025);
      for (std::size_t step = 0; step < kSteps; ++step)
        EXPECT_NEAR(difference[step], 0, 0.05) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::fp8_step_test
