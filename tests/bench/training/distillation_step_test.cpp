// Distillation: every schedule in every split gives the loss and the student's gradients of one rank, and
// those of PyTorch (tests/golden).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::distillation_step_test {
namespace {

constexpr const char* kSchedules[] = {"nemo-2504", "abeja", "nemo-13065", "bubble-fill"};

/// On 8 ranks only 2 x 2 x 2: fewer ranks show the other splits in less time.
std::vector<Layout> splits() {
  std::vector<Layout> all = layouts_of(world_ranks());
  if (world_ranks() < 8) return all;
  std::erase_if(all, [](const Layout& at) { return at.tensor > 2 || at.pipeline > 2 || at.data > 2; });
  return all;
}

/// A wider, deeper teacher of another family over the student's vocabulary.
RunConfig config_of(DType precision) {
  RunConfig config;
  config.model = small_qwen2();
  config.distillation.teacher = small_gpt2();
  config.distillation.teacher->embedding.tied = false;
  config.distillation.teacher->layers = 9;
  config.distillation.teacher->hidden = 96;
  config.distillation.teacher->head_dim = 12;
  config.distillation.teacher->ffn = 4 * 96;
  config.numerics.precision = precision;
  config.batch.seq_length = 24;
  config.batch.micro_batch_size = 2;
  config.batch.global_batch_size = 16;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;
  return config;
}

/// A way to learn from the teacher that changes the result.
struct Loss {
  double temperature;
  DistillationKl kl;
  double lm_weight;
};
constexpr Loss kLosses[] = {{1, DistillationKl::forward, 0},
                            {2.5, DistillationKl::forward, 0.3},
                            {0.8, DistillationKl::reverse, 0},
                            {3, DistillationKl::reverse, 0.6}};

RunConfig with(RunConfig config, const Loss& loss) {
  config.distillation.temperature = loss.temperature;
  config.distillation.kl = loss.kl;
  config.distillation.lm_weight = loss.lm_weight;
  return config;
}

/// Variants that do not: kept form of the teacher's output, sequence parallelism, options of the student.
RunConfig with_way(RunConfig config, int way) {
  config.distillation.cache = way % 2 == 1 ? DistillationCache::hidden : DistillationCache::logits;
  if (way >= 2) config.distillation.cache_dtype = DistillationCacheDType::fp32;
  config.parallel.sequence_parallel = way % 2 == 1;
  config.recompute.granularity = way == 2   ? Recompute::full
                                 : way == 3 ? Recompute::selective
                                            : Recompute::none;
  config.parallel.dp.zero_stage = config.parallel.data() > 1 ? way : 0;
  config.distillation.cache_limit = way + 1;
  // Unfused attention rounds scores to 16 bits, too: its bf16 gradients are further from the reference's.
  if (way % 2 == 0 && config.numerics.precision == DType::fp32)
    config.numerics.attention_backend = AttentionBackend::unfused;
  const bool may_be_unfused =
      config.parallel.tensor == 1 && config.distillation.kl == DistillationKl::forward;
  if (way >= 2 && may_be_unfused) config.distillation.loss = DistillationLoss::unfused;
  return config;
}

void expect_alike(const StepResult& reference, const StepResult& found, double tolerance, bool gradients,
                  const std::string& name) {
  EXPECT_NEAR(found.loss / reference.loss, 1, tolerance) << name;
  EXPECT_NEAR(found.gradient_norm / reference.gradient_norm, 1, tolerance) << name;
  if (!gradients) return;
  expect_gradients(reference.gradients, found.gradients, tolerance, name);
}

TEST(DistillationStep, EveryScheduleGivesTheSingleRanksGradients) {
  for (std::size_t i = 0; i < std::size(kLosses); ++i) {
    const DType precision = i == 1 ? DType::bf16 : DType::fp32;
    const double tolerance = precision == DType::fp32 ? 5e-5 : 4e-2;
    RunConfig config = with(config_of(precision), kLosses[i]);
    set_dropout(config, kDropouts[i / 2]);
    const StepResult reference = step_of_first_rank([&] {
      SoloCommunicator solo;
      return one_step(config, solo);
    });
    std::size_t shift = i;
    for (const Layout& layout : splits()) {
      set_layout(config, layout);
      MpiCommunicator communicator(config.layout());
      ++shift;
      for (std::size_t at = 0; at < std::size(kSchedules); ++at) {
        const char* schedule = kSchedules[at];
        const int way = static_cast<int>((at + shift) % 4);  // in another layout or loss another way
        RunConfig split = with_way(config, way);
        split.distillation.schedule = schedule;
        ASSERT_FALSE(why_invalid(split)) << *why_invalid(split);
        const std::string name = fmt::format("{} loss {} way {} tp{} pp{} dp{}", schedule, i, way,
                                             layout.tensor, layout.pipeline, layout.data);
        const StepResult found = one_step(split, communicator);
        expect_alike(reference, found, tolerance, communicator.rank() == 0, name);
        if (communicator.rank() == 0) expect_memory(split, found);
      }
    }
  }
}

/// Rows of a vocabulary that the other model lacks take no part: results equal those of a teacher, or a
/// student, without them.
TEST(DistillationStep, VocabulariesMayDifferByPaddingRows) {
  struct Sizes {
    std::int64_t student, teacher;
  };
  for (const Sizes& sizes : {Sizes{200, 203}, Sizes{203, 200}}) {
    for (const Layout& layout : splits()) {
      if (layout.world() > 2) continue;  // two ranks show how they are split
      RunConfig config = with(config_of(DType::fp32), kLosses[1]);
      set_layout(config, layout);
      config.parallel.make_vocab_size_divisible_by = 64;
      RunConfig same = config;
      same.model.vocab = same.distillation.teacher->vocab = 200;
      config.model.vocab = sizes.student;
      config.distillation.teacher->vocab = sizes.teacher;
      ASSERT_EQ(why_invalid(config), std::nullopt);
      MpiCommunicator communicator(config.layout());
      StepResult found = one_step(config, communicator);
      StepResult reference = one_step(same, communicator);
      for (const char* name :
           {"model.embed_tokens.weight"}) {  // tied; rows beyond the common ones get no gradient
        std::vector<float>& rows = found.gradients[name];
        if (communicator.rank() != 0 || rows.empty()) continue;
        const auto common = static_cast<std::ptrdiff_t>(200 * config.model.hidden);
        EXPECT_TRUE(std::all_of(rows.begin() + common, rows.end(), [](float x) { return x == 0; }));
        rows.resize(static_cast<std::size_t>(common));
      }
      const std::string name = fmt::format("student {} teacher {} tp{} pp{}", sizes.student, sizes.teacher,
                                           layout.tensor, layout.pipeline);
      EXPECT_EQ(found.loss, reference.loss) << name;
      if (communicator.rank() == 0) expect_alike(reference, found, 1e-6, true, name);
      expect_memory(config, found);
    }
  }
  RunConfig apart = config_of(DType::fp32);
  apart.model.vocab = 192;
  apart.distillation.teacher->vocab = 193;
  const auto reason = why_invalid(apart);
  ASSERT_TRUE(reason);
  EXPECT_NE(reason->find("make_vocab_size_divisible_by that pads both to the same, such as 128"),
            std::string::npos)
      << *reason;
}

class GoldenDistillation : public testing::TestWithParam<const char*> {};

TEST_P(GoldenDistillation, LossAndGradientsEqualPyTorchs) {
  const std::string folder = fmt::format("{}/tests/golden/distillation", PLUMBLINE_SOURCE_DIR);
  std::ifstream expected_file(folder + "/expected.json");
  const double loss = nlohmann::json::parse(expected_file)[GetParam()].get<double>();
  const auto gradients = tensors_of(fmt::format("{}/{}.safetensors", folder, GetParam()));
  RunConfig config = load_run_config(fmt::format("{}/{}.yaml", folder, GetParam()), {});
  for (const Layout& layout : splits()) {
    set_layout(config, layout);
    if (why_invalid(config)) continue;  // two layers do not make four stages
    MpiCommunicator communicator(config.layout());
    for (const char* schedule : kSchedules) {
      config.distillation.schedule = schedule;
      const std::string name = fmt::format("{} {} tp{} pp{} dp{}", GetParam(), schedule, layout.tensor,
                                           layout.pipeline, layout.data);
      const StepResult found = one_step(config, communicator);
      EXPECT_NEAR(found.loss / loss, 1, 1e-5) << name;
      if (communicator.rank() != 0) continue;
      expect_gradients(gradients, found.gradients, 1e-4, name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, GoldenDistillation, testing::Values("forward", "reverse"));

}  // namespace
}  // namespace plumbline::training::distillation_step_test
