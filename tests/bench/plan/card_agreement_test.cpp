// Refusals of the backend for a card's multiprocessors are those of the prediction, over drawn
// configurations; both count channels and communicators by themselves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/fit.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/nccl/block_budget.hpp"
#include "core/backends/nccl/channels.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/context_ring.hpp"
#include "core/schedule/vocab_passes.hpp"

namespace plumbline::card_agreement_test {
namespace {

constexpr const char* kCards[] = {"h100-sxm-80gb", "h20-sxm-96gb", "a100-sxm-80gb", "l40s-48gb"};

RunConfig drawn(std::mt19937& random) {
  const auto one_of = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[random() % sizeof...(choices)];
  };
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.model.layers = 32;
  config.machine.backend = Backend::cuda;
  config.parallel.tensor = one_of(1, 2, 4);
  config.parallel.pipeline = one_of(1, 2, 3, 4, 8);
  config.parallel.context = one_of(1, 1, 2, 4);
  const int data = one_of(1, 2, 4);
  config.parallel.world_size =
      config.parallel.tensor * config.parallel.pipeline * config.parallel.context * data;
  config.parallel.sequence_parallel = config.parallel.tensor > 1;
  config.parallel.cp.comm_type = one_of(CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a);
  config.parallel.pp.schedule =
      one_of("1f1b", "1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "v-half", "dualpipe");
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(one_of("none", "none", "vocab-1", "vocab-2"));
  config.parallel.dp.zero_stage = one_of(0, 1, 2, 3);
  config.parallel.dp.optimizer_instances = one_of(1, 1, 2);
  config.batch.seq_length = 1024;
  config.batch.micro_batch_size = 1;
  config.batch.global_batch_size = 16 * data;
  return config;
}

bool is_valid(const RunConfig& config) {
  if (why_invalid(config)) return false;
  try {
    return schedule_for(config).ranks == config.parallel.pipeline;
  } catch (const InputError&) {
    return false;  // sizes that the schedule does not take
  }
}

/// The lanes of a rank as the backend makes them.
bool backend_takes(const RunConfig& config, int processors) {
  const std::vector<Channel> channels = channels_of(schedule_for(config));
  const Layout layout = config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    const int stage = layout.coordinates(rank).pipeline;
    const auto ends = std::count_if(channels.begin(), channels.end(), [&](const Channel& channel) {
      return channel.from == stage || channel.to == stage;
    });
    const int ring = context_ring(config.parallel) > 1 ? 2 : 0;
    try {
      multiprocessors_for_computation(lanes_of(layout, rank, static_cast<int>(ends) + ring), NcclBlocks(),
                                      processors);
    } catch (const InputError&) {
      return false;
    }
  }
  return true;
}

TEST(CardAgreement, PredictionAndBackendRefuseTheSameOf500DrawnConfigurations) {
  std::mt19937 random(7);
  int checked = 0;
  int refused = 0;
  for (int draws = 0; checked < 500 && draws < 20'000; ++draws) {
    RunConfig config = drawn(random);
    if (!is_valid(config)) continue;
    ++checked;
    for (const char* card : kCards) {
      config.machine.hardware = card;
      const HardwareProfile hardware = load_hardware(card);
      const auto processors = static_cast<int>(hardware.accelerator()->constants.device.processors);
      const auto why = why_unpredictable(config, hardware);
      const bool taken = backend_takes(config, processors);
      refused += taken ? 0 : 1;
      EXPECT_EQ(taken, !why) << fmt::format(
          "{}: tp {} pp {} cp {} world {} {} zero {} instances {}: {}", card, config.parallel.tensor,
          config.parallel.pipeline, config.parallel.context, config.parallel.world_size,
          config.parallel.pp.schedule, config.parallel.dp.zero_stage, config.parallel.dp.optimizer_instances,
          why.value_or("taken by predict"));
    }
  }
  EXPECT_EQ(checked, 500);
  EXPECT_GT(refused, 20);
}

/// The prediction compares the fullest rank with the device; each rank of the backend has a budget for its
/// tensors. On devices that are as large as the step needs, and a byte smaller, both say the same.
TEST(CardAgreement, PredictionAndBudgetsOfRanksSayTheSameOf500DrawnConfigurations) {
  std::mt19937 random(11);
  int checked = 0;
  for (int draws = 0; checked < 500 && draws < 20'000; ++draws) {
    RunConfig config = drawn(random);
    config.batch.micro_batch_size = 1 << random() % 4;
    config.batch.global_batch_size *= config.batch.micro_batch_size;
    if (!is_valid(config)) continue;
    ++checked;
    const Schedule schedule = schedule_for(config);
    const MemoryPrediction memory = predict_memory(config, step_for(config));
    const Layout layout = config.layout();
    for (const char* card : kCards) {
      HardwareProfile hardware = load_hardware(card);
      const Bytes needed = fit_of(config, schedule, hardware, memory).needed;
      for (const std::int64_t less : {0, 1}) {
        hardware.overhead.device = needed - Bytes{less};
        bool taken = true;
        for (const RankMemory& row : memory.ranks) {
          // Ranks of a row have the same tensors; their communicators may differ.
          for (int rank = 0; rank < layout.world(); ++rank) {
            if (layout.coordinates(rank).pipeline != layout.coordinates(row.rank).pipeline) continue;
            taken = taken && row.peak.total() <= tensor_budget(config, schedule, hardware, rank);
          }
        }
        EXPECT_EQ(fit_of(config, schedule, hardware, memory).fits, less == 0);
        EXPECT_EQ(taken, less == 0) << fmt::format(
            "{}: tp {} pp {} cp {} world {} {} zero {}", card, config.parallel.tensor,
            config.parallel.pipeline, config.parallel.context, config.parallel.world_size,
            config.parallel.pp.schedule, config.parallel.dp.zero_stage);
      }
    }
  }
  EXPECT_EQ(checked, 500);
}

/// Three stages on H100, two on A100 (core/backends/nccl/block_budget.hpp).
TEST(CardAgreement, ASplitVocabularyIsPlannedOnThreeH100AndTwoA100) {
  for (const auto& [card, stages] : {std::pair("h100-sxm-80gb", 3), std::pair("a100-sxm-80gb", 2)}) {
    RunConfig config;
    config.model = *find_preset("gpt2-124m");
    config.model.layers = 12;
    config.machine.backend = Backend::cuda;
    config.machine.hardware = card;
    config.parallel.pipeline = config.parallel.world_size = stages;
    config.parallel.pp.vocab_parallel = parse_vocab_parallel("vocab-2");
    config.batch.global_batch_size = 12;
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    EXPECT_EQ(why_unpredictable(config, load_hardware(card)).value_or(""), "");
    EXPECT_TRUE(backend_takes(config, card == std::string("h100-sxm-80gb") ? 132 : 108));
  }
}

}  // namespace
}  // namespace plumbline::card_agreement_test
