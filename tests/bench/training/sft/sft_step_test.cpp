// Supervised fine-tuning against transformers (tests/golden/make_sft.py): losses and gradients of masked and
// of packed batches are those of the same conversations one by one, in every split, also of conversations
// over ranks; of all parameters, and of LoRA adapters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/files/chat_packs.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::sft_step_test {
namespace {

std::string golden(const std::string& path) {
  return fmt::format("{}/tests/golden/{}", PLUMBLINE_SOURCE_DIR, path);
}

enum class Packing { none, packs, dynamic };

/// All 16 conversations in every step, padded or in packs; dynamic: over the layout's data ranks.
RunConfig chats(const std::string& model, Packing packing, const Layout& layout) {
  const bool packed = packing != Packing::none;
  const bool adapters = model.starts_with("lora/");
  RunConfig config = load_run_config(golden(model) + "/run.yaml", {});
  config.files.data = golden("sft/chats.jsonl");
  config.generation.task = RunTask::sft;
  config.batch = {.seq_length = 24,
                  .micro_batch_size = packed ? 1 : 2,
                  .global_batch_size = packed ? 8 : 16,
                  .packed_sequence = packed};
  config.optimizer.learning_rate = adapters ? 1e-2 : 1e-3;
  config.optimizer.weight_decay = 0.01;
  config.optimizer.clip_grad = 0;
  config.measure.warmup_steps = 0;
  config.measure.steps = 10;
  set_layout(config, layout);
  if (packing == Packing::dynamic) {
    config.parallel.context = layout.data;
    config.batch.dynamic_context_parallel = true;
    const ChatData data(config.files.data, config.model.vocab, config.batch.seq_length);
    config.batch.global_batch_size = std::ssize(order_of(data, config).groups);
  }
  return config;
}

/// Four ranks are for groups of two of them, in which all else is as on two.
std::vector<Packing> packings_of(const Layout& layout) {
  if (layout.world() == 4) return layout.data == 4 ? std::vector{Packing::dynamic} : std::vector<Packing>();
  std::vector<Packing> all{Packing::none, Packing::packs};
  if (layout.data > 1) all.push_back(Packing::dynamic);
  return all;
}

struct Golden {
  const char* model;  // folder of golden/
  const char* files;  // of golden/sft/
};

class SftStep : public testing::TestWithParam<Golden> {};

TEST_P(SftStep, LossesAndGradientsAreThoseOfTransformersOneByOne) {
  const std::string model = GetParam().model;
  const std::string files = golden(std::string("sft/") + GetParam().files);
  std::ifstream file(files + ".json");
  const auto losses = nlohmann::json::parse(file)["losses"].get<std::vector<double>>();
  const Tensors gradients = tensors_of(files + ".safetensors");
  for (const Layout& layout : layouts_of(world_ranks())) {
    for (const Packing packing : packings_of(layout)) {
      const RunConfig config = chats(model, packing, layout);
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      const std::string name =
          fmt::format("{} tp{} pp{} dp{}{}", model, layout.tensor, layout.pipeline, layout.data,
                      packing == Packing::none    ? ""
                      : packing == Packing::packs ? " packed"
                                                  : " dynamic");
      MpiCommunicator communicator(config.layout());
      const StepResult first = one_step(config, communicator);
      const auto operators = make_cpu_operators();
      const TrainingResult result =
          train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
      ASSERT_EQ(result.losses.size(), losses.size());
      for (std::size_t step = 0; step < losses.size(); ++step)
        EXPECT_NEAR(result.losses[step] / losses[step], 1, 1e-5) << name << " step " << step;
      if (communicator.rank() != 0) continue;
      std::string worst;
      const double error = largest_error(gradients, first.gradients, worst);
      EXPECT_LE(error, 1e-4) << name << ": " << worst;
      fmt::print("{}: largest error {:.2e} ({})\n", name, error, worst);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SftStep,
                         testing::Values(Golden{"llama", "llama"}, Golden{"gpt2", "gpt2"},
                                         Golden{"lora/llama_all", "llama_lora"},
                                         Golden{"lora/gpt2", "gpt2_lora"}),
                         [](const auto& each) { return std::string(each.param.files); });

struct Change {
  const char* name;
  void (*make)(RunConfig&);
};
constexpr Change kChanges[] = {
    {"plain", [](RunConfig&) {}},
    {"full recomputation", [](RunConfig& c) { c.recompute.granularity = Recompute::full; }},
    {"attention recomputed", [](RunConfig& c) { c.recompute.granularity = Recompute::selective; }},
    {"split backward", [](RunConfig& c) { c.parallel.pp.schedule = "zb-h1"; }},
    {"sequence parallel", [](RunConfig& c) { c.parallel.sequence_parallel = c.parallel.tensor > 1; }},
};

/// Head norms, latent attention with a mixture of experts, ALiBi.
TEST(PackedStep, EqualsTheUnpackedOne) {
  for (const char* model : {"families/qwen3", "families/deepseek_v3", "families/bloom"}) {
    for (const Change& change : kChanges) {
      for (const Layout& layout : layouts_of(world_ranks())) {
        std::vector<StepResult> results;
        for (const Packing packing : packings_of(layout)) {
          RunConfig config = chats(model, packing, layout);
          change.make(config);
          if (why_invalid(config)) break;
          MpiCommunicator communicator(config.layout());
          results.push_back(one_step(config, communicator));
        }
        for (std::size_t i = 1; i < results.size(); ++i) {
          const std::string name = fmt::format("{} {} tp{} pp{} dp{} packing {}: ", model, change.name,
                                               layout.tensor, layout.pipeline, layout.data, i);
          EXPECT_NEAR(results[i].loss / results[0].loss, 1, 1e-5) << name;
          if (results[0].gradients.empty()) continue;
          std::string worst;
          EXPECT_LE(largest_error(results[0].gradients, results[i].gradients, worst), 1e-5) << name << worst;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::sft_step_test
