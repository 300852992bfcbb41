// Predicted and measured memory agree to the byte, on every rank and in every category. The prediction knows
// only the description in bench/training/README.md; the measurement is the arena of a real step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/memory/memory_model.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/layer_distribution.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "schedules/make_schedule.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::memory_agreement_test {
namespace {

struct Case {
  const char* name;
  bool gpt2;
  bool tied;
  DType precision;
  GradDType gradients;
  Optimizer optimizer;
  const char* schedule;
  std::int64_t micro_batch;
  const char* vocabulary = "none";
  bool empty_last_stage = false;  // its end of the model alone
  Dropouts dropout = kDropouts[0];
  AttentionBackend attention = AttentionBackend::fused;
  bool loss_fusion = true;
  int zero_stage = 0;
  int secondary_shards = 1;
  int instances = 1;
};

constexpr Case kCases[] = {
    {"qwen2 bf16 1f1b", false, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 1},
    {"qwen2 fp32 gpipe", false, true, DType::fp32, GradDType::fp32, Optimizer::adam, "gpipe", 2},
    {"qwen2 untied bf16 gradients", false, false, DType::bf16, GradDType::same, Optimizer::adam, "1f1b", 2},
    {"gpt2 bf16 gpipe", true, true, DType::bf16, GradDType::fp32, Optimizer::adam, "gpipe", 1},
    {"gpt2 fp32 1f1b sgd", true, true, DType::fp32, GradDType::fp32, Optimizer::sgd, "1f1b", 3},
    {"last stage without layers", true, false, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 1,
     "none", true},
    {"last stage without layers", false, true, DType::fp32, GradDType::fp32, Optimizer::adam, "zb-h1", 1,
     "none", true},
    {"last stage without layers", false, false, DType::bf16, GradDType::fp32, Optimizer::adam, "v-half", 1,
     "none", true},
    {"gpt2 vocab-1", true, false, DType::bf16, GradDType::same, Optimizer::sgd, "1f1b", 2, "vocab-1"},
    {"gpt2 vocab-2", true, true, DType::fp32, GradDType::fp32, Optimizer::adam, "v-half", 1, "vocab-2"},
    {"last stage without layers, vocab-1", false, true, DType::bf16, GradDType::fp32, Optimizer::adam,
     "v-half", 1, "vocab-1", true},
    {"last stage without layers, vocab-2", true, false, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b",
     2, "vocab-2", true},
    {"qwen2 dropout", false, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 2, "none", false,
     kDropouts[1], AttentionBackend::unfused},
    {"gpt2 dropout", true, false, DType::fp32, GradDType::fp32, Optimizer::sgd, "zb-v", 1, "none", false,
     kDropouts[1], AttentionBackend::unfused},
    {"gpt2 dropout, vocab-2", true, true, DType::bf16, GradDType::fp32, Optimizer::adam, "v-half", 1,
     "vocab-2", true, kDropouts[1]},
    {"qwen2 loss in fp32", false, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 2, "none",
     false, kDropouts[0], AttentionBackend::fused, false, 2},
    {"gpt2 loss in fp32", true, false, DType::bf16, GradDType::same, Optimizer::sgd, "zb-h1", 1, "none",
     false, kDropouts[0], AttentionBackend::fused, false, 3},
    {"last stage without layers, loss in fp32", false, false, DType::bf16, GradDType::fp32, Optimizer::adam,
     "zb-v", 1, "none", true, kDropouts[0], AttentionBackend::fused, false, 3},
    {"gpt2 loss in fp32, vocab-1", true, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 2,
     "vocab-1", false, kDropouts[0], AttentionBackend::fused, false, 3},
    {"qwen2 loss in fp32, vocab-1", false, false, DType::bf16, GradDType::fp32, Optimizer::adam, "v-half", 1,
     "vocab-1", false, kDropouts[0], AttentionBackend::fused, false},
    {"qwen2 loss in fp32, vocab-2", false, false, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 2,
     "vocab-2", false, kDropouts[0], AttentionBackend::fused, false, 3},
    {"gpt2 loss in fp32, vocab-2", true, false, DType::bf16, GradDType::same, Optimizer::sgd, "v-half", 1,
     "vocab-2", false, kDropouts[1], AttentionBackend::fused, false, 1},
    {"qwen2 secondary shards", false, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 1, "none",
     false, kDropouts[0], AttentionBackend::fused, true, 3, 2},
    {"gpt2 secondary shards", true, false, DType::fp32, GradDType::fp32, Optimizer::sgd, "zb-v", 1, "none",
     true, kDropouts[0], AttentionBackend::fused, true, 3, 2},
    {"qwen2 instances", false, true, DType::bf16, GradDType::fp32, Optimizer::adam, "1f1b", 1, "none", false,
     kDropouts[0], AttentionBackend::fused, true, 1, 1, 2},
    {"gpt2 instances", true, false, DType::bf16, GradDType::same, Optimizer::adam, "zb-v", 1, "none", true,
     kDropouts[0], AttentionBackend::fused, true, 2, 1, 2},
    {"qwen2 instances, vocab-1", false, true, DType::fp32, GradDType::fp32, Optimizer::sgd, "1f1b", 1,
     "vocab-1", false, kDropouts[0], AttentionBackend::fused, true, 3, 1, 2},
    {"qwen2 fp32, loss unfused", false, true, DType::fp32, GradDType::fp32, Optimizer::adam, "1f1b", 1,
     "none", false, kDropouts[0], AttentionBackend::fused, false},
};

/// Layers of `stages` stages, none on the last; empty when there are too few.
std::string without_layers_at_the_end(std::int64_t layers, int stages) {
  if (stages < 2 || layers < stages - 1) return "";
  std::string text;
  for (const int count : even_layers(layers, stages - 1)) text += fmt::format("{},", count);
  return text + "0";
}

TEST(MemoryAgreement, ToTheByteOnEveryRankInEveryCategory) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    RunConfig config;
    config.model = c.gpt2 ? small_gpt2() : small_qwen2();
    config.model.embedding.tied = c.tied;
    config.numerics.precision = c.precision;
    config.numerics.grad_dtype = c.gradients;
    config.optimizer.kind = c.optimizer;
    config.parallel.pp.schedule = c.schedule;
    config.batch.seq_length = 30;
    config.batch.micro_batch_size = c.micro_batch;
    config.batch.global_batch_size = 24;
    config.parallel.make_vocab_size_divisible_by = 8;
    set_dropout(config, c.dropout);
    config.numerics.attention_backend = c.attention;
    config.numerics.cross_entropy_loss_fusion = c.loss_fusion;
    if (!c.loss_fusion) {  // the peak is at the logits
      config.model.vocab = 4000;
      config.batch.seq_length = 8;
      config.batch.global_batch_size = 16;
    }
    config.parallel.dp.zero_stage = c.zero_stage;
    config.parallel.dp.hpz_partition_size = c.secondary_shards;
    config.parallel.dp.optimizer_instances = c.instances;
    config.measure.steps = 1;
    config.measure.warmup_steps = 0;
    for (const Layout& layout : layouts_of(ranks)) {
      set_layout(config, layout);
      config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
      if (c.secondary_shards > 1 && layout.data <= c.secondary_shards) continue;
      if (layout.data < c.instances) continue;
      const int stages = layout.pipeline * default_chunks(c.schedule);
      if (stages > config.model.layers) continue;
      if (c.empty_last_stage) {
        config.parallel.pp.layer_distribution = without_layers_at_the_end(config.model.layers, stages);
        if (config.parallel.pp.layer_distribution.empty()) continue;
      }
      const Schedule schedule = schedule_for(config);
      const MemoryPrediction prediction = predict_memory(config, schedule);
      const auto operators = make_cpu_operators();
      MpiCommunicator communicator(config.layout());
      const TrainingResult result =
          train(config, schedule, *operators, communicator, communicator, host_memory(), {});
      if (communicator.rank() != 0) continue;
      ASSERT_EQ(prediction.ranks.size() * static_cast<std::size_t>(prediction.ranks_alike),
                result.memory.size());
      for (int rank = 0; rank < ranks; ++rank) {
        const MemoryBreakdown& predicted = prediction.of_rank(rank).peak;
        const MemoryBreakdown& measured = result.memory[static_cast<std::size_t>(rank)].at_peak;
        for (int i = 0; i < kCategories; ++i) {
          const auto category = static_cast<Category>(i);
          EXPECT_EQ(predicted[category].value, measured[category].value)
              << fmt::format("{} tp{} pp{} dp{} rank {} {}", c.name, layout.tensor, layout.pipeline,
                             layout.data, rank, name_of(category));
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::memory_agreement_test
