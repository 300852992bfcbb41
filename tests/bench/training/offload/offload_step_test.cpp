// Activations on the host between forward and backward: gradients equal those of a step without, bit for bit.
// Memory of device and host, on every rank and after every action, and traffic are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::offload_step_test {
namespace {

constexpr const char* kSchedules[] = {"1f1b",   "zb-h1", "gpipe",    "interleaved", "zb-v",
                                      "v-half", "zb-h2", "dualpipe", "dualpipev",   "v-min"};

ModelConfig parallel_block() {
  ModelConfig model = small_qwen2();
  model.architecture = "falcon";
  model.block = Block::parallel;
  model.activation = Activation::squared_relu;
  return model;
}

ModelConfig shared_expert() {
  ModelConfig model = small_mixture(false);
  model.architecture = "qwen2_moe";
  model.mixture.shared = 24;
  return model;
}

/// Sizes that FP8 takes, also on two tensor ranks.
ModelConfig round_mixture() {
  ModelConfig model = shared_expert();
  model.name = "round";
  model.head_dim = 16;
  model.ffn = 32;
  model.mixture.experts = 8;
  model.mixture.shared = 32;
  return model;
}

std::vector<ModelConfig> models() {
  return {small_qwen2(),        small_gpt2(),          parallel_block(), shared_expert(),
          small_deepseek(true), small_deepseek(false), round_mixture()};
}

/// Every other setting, one at a time.
RunConfig config_of(const ModelConfig& model, const Layout& layout, std::size_t turn) {
  RunConfig config;
  config.model = model;
  config.model.layers = 9;  // stages of different lengths
  set_layout(config, layout);
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = kSchedules[turn % std::size(kSchedules)];
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = turn % 2 == 1;
  config.parallel.tp.comm_overlap = turn % 4 == 1 && !model.mixture;
  config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(turn / 2 % 4) : 0;
  config.numerics.precision = turn / 3 % 2 == 0 ? DType::fp32 : DType::bf16;
  set_dropout(config, kDropouts[turn / 5 % 2]);
  if (model.mixture) config.mixture.aux_loss_coeff = 0.02;
  const bool round = model.name == "round";
  if (model.mixture.experts == 8 && layout.data > 1 && turn % 3 != 1) {
    config.parallel.expert = 2;
    config.parallel.ep.token_dispatcher =
        turn % 5 == 0 && !round ? TokenDispatcher::allgather : TokenDispatcher::alltoall;
  }
  if (model.mixture && turn % 4 == 3 && config.parallel.ep.token_dispatcher != TokenDispatcher::allgather)
    config.mixture.capacity_factor = 0.9;
  if (round || (turn % 2 == 0 && model.architecture == "qwen2")) {
    config.numerics.fp8.format = Fp8Format::hybrid;
    config.numerics.fp8.recipe = turn % 3 == 0 ? Fp8Recipe::delayed : Fp8Recipe::tensorwise;
  }
  set_recomputation(config, kRecomputations[turn % 3 == 2 ? 1 + turn / 3 % 6 : 0]);
  config.offload.num_layers = 1 + static_cast<std::int64_t>(turn % 4);
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

/// Of the host; then of the device.
void expect_host_memory(const RunConfig& config, const StepResult& found) {
  const Schedule schedule = schedule_for(config);
  const Layout layout = config.layout();
  for (int sender = 0; sender < layout.senders(); ++sender) {
    const MemoryPrediction prediction = predict_memory(config, schedule, MemoryDetail::peaks,
                                                       RoutedRows(config, schedule, found.routing, sender));
    for (int rank = 0; rank < layout.world(); ++rank) {
      if (layout.sender(layout.coordinates(rank)) != sender) continue;
      EXPECT_EQ(prediction.of_rank(rank).host, found.memory[static_cast<std::size_t>(rank)].host)
          << "rank " << rank;
    }
  }
  expect_routed_memory(config, found);
}

bool traffic_as_predicted(const RunConfig& config, const Communicator& communicator,
                          const StepResult& found) {
  const Schedule schedule = schedule_for(config);
  const Layout layout = config.layout();
  const auto& fp8 = config.numerics.fp8;
  if (fp8.on() && fp8.recipe == Fp8Recipe::delayed && layout.tensor > 1)
    return true;  // the first step finds scales
  const RoutedRows rows(config, schedule, found.routing,
                        layout.sender(layout.coordinates(communicator.rank())));
  return same(predict_traffic(config, schedule, communicator.rank(), rows), found.traffic);
}

TEST(OffloadedLayers, LeaveGradientsAsTheyAreAndMemoryAsPredicted) {
  const std::vector<Layout> layouts = layouts_of(world_ranks());
  int compared = 0;
  std::size_t turn = 0;
  for (const ModelConfig& model : models()) {
    for (std::size_t i = 0; i < 12; ++i, ++turn) {
      RunConfig config = config_of(model, layouts[turn / 2 % layouts.size()], turn);
      if (!is_planned(config)) continue;
      SCOPED_TRACE(fmt::format(
          "{} tp{} pp{} dp{} ep{} fp8 {} capacity {} {} sp{} zero{} {} dropout {} recompute {}: {} layers",
          config.model.architecture, config.parallel.tensor, config.parallel.pipeline, config.parallel.data(),
          config.parallel.expert, config.numerics.fp8.on(), config.mixture.capacity_factor,
          config.parallel.pp.schedule, config.parallel.sequence_parallel, config.parallel.dp.zero_stage,
          name_of(config.numerics.precision), config.numerics.hidden_dropout,
          to_string(config.recompute.selected()), config.offload.num_layers));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_host_memory(config, found);
      EXPECT_TRUE(traffic_as_predicted(config, communicator, found));
      config.offload = {};
      const StepResult plain = one_step(config, communicator);
      expect_same_bits(plain, found);
      EXPECT_LT(kept(found), kept(plain));
      ++compared;
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 30);
}

}  // namespace
}  // namespace plumbline::training::offload_step_test
