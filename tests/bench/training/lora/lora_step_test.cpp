// LoRA: losses and gradients against PyTorch (tests/golden/make_lora.py) in every split; merged weights;
// frozen values; memory and traffic as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/weights/weight_files.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::lora_step_test {
namespace {

std::string name_of(const RunConfig& config) {
  return fmt::format("{} tp{} pp{} dp{} sp{} zero{} {} {} recompute {} targets {}{} dropout {} offload {}",
                     config.model.architecture, config.parallel.tensor, config.parallel.pipeline,
                     config.parallel.data(), config.parallel.sequence_parallel, config.parallel.dp.zero_stage,
                     config.parallel.pp.schedule, plumbline::name_of(config.numerics.precision),
                     to_string(config.recompute.selected()), static_cast<int>(config.finetune.lora_targets),
                     config.finetune.canonical() ? " canonical" : "", config.numerics.hidden_dropout,
                     config.offload.num_layers);
}

TEST(LoraGolden, TenLossesAndFirstGradientsEqualPyTorchs) {
  for (const char* model : {"llama", "llama_all", "llama_canonical", "llama_rslora", "gpt2", "qwen3", "olmo2",
                            "exaone4", "qwen3_moe"}) {
    const std::string folder = fmt::format("{}/tests/golden/lora/{}", PLUMBLINE_SOURCE_DIR, model);
    std::ifstream expected_file(folder + "/expected.json");
    const nlohmann::json expected = nlohmann::json::parse(expected_file)["losses"];
    const Tensors gradients = tensors_of(folder + "/gradients.safetensors");
    RunConfig config = load_run_config(folder + "/run.yaml", {});
    for (const Layout& layout : layouts_of(world_ranks())) {
      set_layout(config, layout);
      if (why_invalid(config) || why_unsupported(config)) continue;
      for (const int zero : {0, 1, 2}) {
        if (zero > 0 && layout.data == 1) continue;
        config.parallel.dp.zero_stage = zero;
        config.parallel.sequence_parallel = layout.tensor > 1 && zero == 0;
        config.parallel.pp.schedule = zero == 0 ? "zb-h1" : "1f1b";
        SCOPED_TRACE(name_of(config));
        MpiCommunicator communicator(config.layout());
        const auto operators = make_cpu_operators();
        const TrainingResult result =
            train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
        ASSERT_EQ(result.losses.size(), expected.size());
        for (std::size_t step = 0; step < expected.size(); ++step)
          EXPECT_NEAR(result.losses[step] / expected[step].get<double>(), 1, 1e-5) << "step " << step;
        const StepResult first = one_step(config, communicator);
        if (communicator.rank() != 0) continue;
        std::string worst;
        const double error = largest_error(gradients, first.gradients, worst);
        EXPECT_LE(error, 1e-4) << worst;
        fmt::print("{}: {:.1e}\n", name_of(config), error);
      }
    }
  }
}

/// Saves a run's adapters and the merged model in a folder of this test.
std::string save_model(const RunConfig& config, Communicator& communicator) {
  const auto operators = make_cpu_operators();
  Arena arena(Bytes{}, host_memory());
  RankStages stages(config, schedule_for(config), *operators, communicator, arena);
  load_weights(stages, initial_weights(config));
  const std::string folder = fmt::format("{}/lora_{}_{}", testing::TempDir(), config.model.architecture,
                                         communicator.layout().world());
  save_weights(stages, folder);
  communicator.barrier(Group::world);
  return folder;
}

TEST(LoraFiles, AdaptersAreReadBackAndMergedWeightsHaveTheirLoss) {
  if (world_ranks() > 2) GTEST_SKIP() << "two ranks show it";
  for (const char* model : {"llama_all", "llama_canonical", "gpt2"}) {
    const std::string source = fmt::format("{}/tests/golden/lora/{}", PLUMBLINE_SOURCE_DIR, model);
    RunConfig config = load_run_config(source + "/run.yaml", {});
    set_layout(config, {world_ranks(), 1, 1});
    MpiCommunicator communicator(config.layout());
    const double adapted = one_step(config, communicator).loss;
    const std::string folder = save_model(config, communicator);
    EXPECT_EQ(tensors_of(folder + "/adapter_model.safetensors"),
              tensors_of(source + "/adapter_model.safetensors"));
    config.files.lora_weights = folder;
    EXPECT_EQ(one_step(config, communicator).loss, adapted) << "of the files that were saved";
    config.finetune = {};
    config.files.lora_weights = "";
    const double without = one_step(config, communicator).loss;
    config.files.weights = folder + "/merged";
    EXPECT_NEAR(one_step(config, communicator).loss / adapted, 1, 1e-5) << model;
    EXPECT_GT(std::abs(without / adapted - 1), 1e-3) << model;
  }
}

/// Values of all parameters before and after `steps` steps; empty except on world rank 0.
std::pair<Tensors, Tensors> before_and_after(const RunConfig& config, Communicator& communicator) {
  const auto operators = make_cpu_operators();
  const Schedule schedule = schedule_for(config);
  Arena arena(Bytes{}, host_memory());
  RankStages stages(config, schedule, *operators, communicator, arena);
  load_weights(stages, with_adapters(lively_weights(3), random_weights(7, 1)));
  const auto values = [&] {
    Tensors all;
    gather_weights(stages, Gathered::values,
                   [&](NamedTensor&& whole) { all[whole.name] = std::move(whole.values); });
    return all;
  };
  const Tensors before = values();
  const StepData data(config, communicator.layout().coordinates(communicator.rank()).data);
  for (int step = 0; step < 2; ++step) {
    const StepTokens tokens = data.step(step);
    stages.start_step(tokens.inputs.data(), tokens.targets.data(), tokens.counted, tokens.ahead);
    execute(schedule, stages, communicator, communicator.now(), Receives::in_their_turn);
  }
  return {before, values()};
}

RunConfig config_of(const ModelConfig& model, const Layout& layout, std::size_t turn) {
  constexpr const char* kSchedules[] = {"1f1b", "zb-h1", "gpipe", "interleaved", "zb-v"};
  constexpr LoraTargets kTargets[] = {LoraTargets::attention, LoraTargets::all, LoraTargets::qkv};
  RunConfig config;
  config.model = model;
  config.model.layers = 4;
  set_layout(config, layout);
  config.finetune = {turn / 2 % 2 == 0 ? Frozen::lora : Frozen::canonical_lora, 4, turn % 2 == 0 ? 4.0 : 10.0,
                     kTargets[turn % 3]};
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = kSchedules[turn / 3 % 5];
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = turn / 2 % 2 == 1;
  config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(turn / 3 % 3) : 0;
  config.parallel.dp.overlap_grad_reduce = turn % 4 != 3;
  config.numerics.precision = turn / 4 % 2 == 0 ? DType::fp32 : DType::bf16;
  config.numerics.hidden_dropout = turn % 4 == 2 ? 0.2 : 0;
  set_recomputation(config, kRecomputations[turn % 5 == 4 ? 1 + turn / 5 % 4 : 0]);
  if (turn % 7 == 3 && config.recompute.granularity != Recompute::full) config.offload.num_layers = 2;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

/// Eight experts, with a gated shared one or without.
ModelConfig small_experts(bool shared) {
  ModelConfig model = small_mixture(false);
  model.mixture.experts = 8;
  if (!shared) return model;
  model.architecture = "qwen2_moe";
  model.norms.qk = false;
  model.mixture.shared = 24;
  return model;
}

/// Attention beside the MLP, with a norm each or one for both.
ModelConfig small_parallel(Block block) {
  ModelConfig model = small_gpt2();
  model.architecture = block == Block::parallel ? "gpt_neox" : "phi";
  model.block = block;
  model.position.kind = Positions::rotary;
  return model;
}

/// Norms of queries and keys, and of results.
ModelConfig small_normed(const char* architecture, NormPlaces norms) {
  ModelConfig model = small_qwen2();
  model.architecture = architecture;
  model.biases.qkv = false;
  model.predicted.norms = norms;
  model.norms.qk = true;
  return model;
}

/// Spreads experts over two ranks, in the `turn`-th way.
void set_experts(RunConfig& config, std::size_t turn) {
  config.parallel.expert = 2;
  config.parallel.ep.token_dispatcher =
      turn % 3 == 0 ? TokenDispatcher::allgather : TokenDispatcher::alltoall;
  config.parallel.ep.shared_expert_overlap = turn % 3 == 1 && config.model.mixture.shared > 0;
  config.parallel.ep.overlap_comm = turn % 3 == 2;
}

TEST(LoraStep, MemoryAndTrafficAreAsPredictedAndFrozenValuesStay) {
  const std::vector<Layout> layouts = layouts_of(world_ranks());
  int compared = 0;
  std::size_t turn = 0;
  for (const ModelConfig& model :
       {small_qwen2(), small_gpt2(), small_normed("qwen3", NormPlaces::before),
        small_normed("exaone4", NormPlaces::after), small_experts(false), small_experts(true),
        small_parallel(Block::parallel), small_parallel(Block::parallel_one_norm)}) {
    for (std::size_t i = 0; i < 15; ++i, ++turn) {
      RunConfig config = config_of(model, layouts[turn % layouts.size()], turn);
      if (model.mixture && config.parallel.data() > 1) set_experts(config, turn);
      if (!is_planned(config)) continue;
      SCOPED_TRACE(name_of(config));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_routed_memory(config, found);
      expect_routed_traffic(config, found, communicator.rank());
      ++compared;
      if (turn % 4 != 0) continue;
      const auto [before, after] = before_and_after(config, communicator);
      for (const auto& [name, values] : before)
        EXPECT_EQ(values == after.at(name), name.find(".lora_") == std::string::npos) << name;
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 60);
}

// With ZeRO 1 a data rank sums those parts of replicated matrices over the tensor ranks that its piece holds.
TEST(LoraStep, TrafficIsAsPredictedOnEveryRank) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 4;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  for (const Layout& layout : layouts_of(world_ranks())) {
    set_layout(config, layout);
    MpiCommunicator communicator(config.layout());
    for (const int zero : {0, 1, 2}) {
      config.parallel.dp.zero_stage = layout.data > 1 ? zero : 0;
      for (const Frozen frozen : {Frozen::lora, Frozen::canonical_lora}) {
        for (const LoraTargets targets : {LoraTargets::qkv, LoraTargets::attention, LoraTargets::all}) {
          config.finetune = {frozen, 4, 4, targets};
          SCOPED_TRACE(name_of(config));
          if (why_invalid(config)) continue;  // fewer KV heads than tensor ranks
          expect_routed_traffic(config, one_step(config, communicator), communicator.rank());
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::lora_step_test
