// Several optimizer instances. Losses, gradients and updates equal those of one rank, with any overlap bit
// for bit; memory after every action and traffic are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::instances_step_test {
namespace {

enum class Model { qwen2, gpt2, normed_output, mixture, spread, latent, modules, distilled };

struct Case {
  Layout layout;
  int instances;
  const char* schedule = "1f1b";
  Model model = Model::qwen2;
  Recompute recompute = Recompute::none;
  const char* vocabulary = "none";
  int expert = 1;
  int slices = 0;            // of an expert; 0: as tensor ranks
  int secondary_shards = 1;  // with ZeRO 3
};

Layout layout_of(int tensor, int pipeline, int data, int context = 1) {
  return {.tensor = tensor, .pipeline = pipeline, .data = data, .context = context};
}

Case spread(int expert, Case c) {
  c.expert = expert;
  if (c.model == Model::qwen2) c.model = Model::spread;
  return c;
}

std::vector<Case> cases() {
  return {{layout_of(1, 1, 2), 2},
          {layout_of(1, 1, 2), 2, "gpipe", Model::normed_output},
          {layout_of(1, 1, 4), 2},
          {layout_of(1, 1, 4), 2, "gpipe", Model::gpt2, Recompute::full},
          {layout_of(1, 1, 4), 2, "zb-h1", Model::normed_output},
          {layout_of(1, 1, 4), 2, "1f1b", Model::mixture},
          {layout_of(1, 1, 4), 2, "1f1b", Model::modules},
          {layout_of(1, 1, 4), 2, "1f1b", Model::distilled},
          {layout_of(1, 1, 4), 4, "zb-h1"},
          {layout_of(1, 1, 4, 2), 2},
          {layout_of(1, 1, 4, 2), 4, "zb-h1", Model::gpt2},
          {layout_of(2, 1, 2), 2, "1f1b", Model::gpt2},
          {layout_of(2, 1, 2), 2, "zb-h1", Model::qwen2, Recompute::selective},
          {layout_of(1, 2, 2), 2},
          {layout_of(1, 2, 2), 2, "zb-v"},
          {layout_of(1, 2, 2), 2, "dualpipe"},
          {layout_of(1, 2, 2), 2, "1f1b", Model::qwen2, Recompute::none, "vocab-1"},
          {layout_of(1, 2, 4), 2, "1f1b", Model::qwen2, Recompute::none, "vocab-2"},
          {layout_of(2, 1, 4), 2, "1f1b", Model::normed_output},
          {layout_of(1, 2, 4), 2, "dualpipev"},
          {layout_of(2, 2, 2), 2, "interleaved"},
          {layout_of(1, 1, 8), 4, "1f1b", Model::mixture},
          spread(2, {layout_of(1, 1, 4), 1}),
          spread(2, {layout_of(1, 1, 4), 2, "zb-h1", Model::latent}),
          spread(2, {layout_of(1, 1, 4, 2), 2, "1f1b", Model::spread, Recompute::full}),
          spread(2, {layout_of(1, 1, 8), 2}),
          spread(2, {.layout = layout_of(2, 1, 4), .instances = 2, .slices = 1}),
          spread(4, {.layout = layout_of(1, 1, 8), .instances = 2, .secondary_shards = 2}),
          {.layout = layout_of(1, 1, 8), .instances = 2, .secondary_shards = 2}};
}

ModelConfig model_of(Model kind) {
  if (kind == Model::latent) return small_deepseek(true);
  ModelConfig model = kind == Model::mixture || kind == Model::spread ? small_mixture(true)
                      : kind == Model::gpt2                           ? small_gpt2()
                                                                      : small_qwen2();
  if (kind == Model::spread) model.mixture.experts = 8;
  if (kind == Model::normed_output) {
    model.architecture = "baichuan";
    model.embedding.tied = false;
    model.norms.output_rows = true;
  }
  if (kind == Model::modules) model.prediction_modules = 2;
  model.layers = 4;
  return model;
}

RunConfig config_of(const Case& c, int zero) {
  RunConfig config;
  config.model = model_of(c.model);
  if (c.model == Model::distilled) {
    config.distillation.teacher = small_gpt2();
    config.distillation.teacher->vocab = config.model.vocab;
  }
  config.numerics.precision = DType::fp32;
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 16;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = c.schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.dp.zero_stage = zero;
  config.optimizer.learning_rate = 1e-3;
  set_layout(config, {c.layout.tensor, c.layout.pipeline, c.layout.data});
  config.parallel.context = c.layout.context;
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.dp.optimizer_instances = c.instances;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  if (zero == 3) config.parallel.dp.hpz_partition_size = c.secondary_shards;
  return config;
}

RunConfig alone(const RunConfig& config) {
  RunConfig one = config;
  set_layout(one, {1, 1, 1});
  one.parallel.context = one.parallel.expert = 1;
  one.parallel.expert_tensor = 0;
  one.parallel.pp.schedule = "1f1b";
  one.parallel.pp.virtual_chunks = 1;
  one.parallel.sequence_parallel = false;
  one.parallel.dp.zero_stage = 0;
  one.parallel.dp.hpz_partition_size = 1;
  one.parallel.dp.optimizer_instances = 1;
  one.parallel.pp.vocab_parallel = VocabPasses::none;
  one.parallel.dp.overlap_param_gather.reset();
  return one;
}

TEST(OptimizerInstances, TrainAsOneRankDoesAndHoldAndSendWhatIsPredicted) {
  const int ranks = world_ranks();
  int compared = 0;
  for (const Case& c : cases()) {
    if (c.layout.world() != ranks) continue;
    std::optional<StepResult> reference;
    std::optional<StepResult> third;
    for (int zero = 1; zero <= 3; ++zero) {
      std::optional<StepResult> first;
      for (const bool overlap : {false, true}) {
        RunConfig config = config_of(c, zero);
        config.parallel.dp.overlap_grad_reduce = overlap;
        config.parallel.dp.overlap_param_gather = overlap;
        if (why_invalid(config)) config.parallel.dp.overlap_param_gather.reset();
        SCOPED_TRACE(fmt::format("tp{} pp{} dp{} cp{} ep{} {} model {} zero{} instances {} {} overlap {}",
                                 c.layout.tensor, c.layout.pipeline, c.layout.data, c.layout.context,
                                 c.expert, c.schedule, static_cast<int>(c.model), zero, c.instances,
                                 c.vocabulary, overlap));
        ASSERT_EQ(why_invalid(config).value_or(""), "");
        SoloCommunicator solo;
        if (!reference) reference = step_of_first_rank([&] { return one_step(alone(config), solo); });
        if (!third) third = step_of_first_rank([&] { return last_step(alone(config), 3, solo); });
        MpiCommunicator communicator(config.layout());
        const StepResult found = one_step(config, communicator);
        EXPECT_NEAR(found.loss, reference->loss, 1e-5 * reference->loss);
        EXPECT_NEAR(found.gradient_norm, reference->gradient_norm, 1e-5 * reference->gradient_norm);
        if (communicator.rank() == 0) {
          std::string worst;
          EXPECT_LT(largest_error(reference->gradients, found.gradients, worst), 1e-5) << worst;
        }
        expect_routed_memory(config, found);
        expect_routed_traffic(config, found, communicator.rank());
        // Its loss shows that the values of the second update reached all ranks.
        const StepResult later = last_step(config, 3, communicator);
        EXPECT_NEAR(later.loss, third->loss, 1e-5 * third->loss);
        if (!first) first = later;
        expect_same_bits(*first, later);
        ++compared;
      }
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace plumbline::training::instances_step_test
