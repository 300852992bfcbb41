// Packed chats on emulated H100s: an epoch of the real training code takes the time, the memory and the
// attention work that are predicted for the same file.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "analysis/predict/dynamic_context.hpp"
#include "analysis/predict/packed_sequences.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::sft_emulated_test {
namespace {

constexpr std::int64_t kSeq = 2048;

/// Every rank has its own copy of the same chats.
std::string write_chats(int count) {
  const auto path = std::filesystem::path(testing::TempDir()) / (std::to_string(::getpid()) + "epoch.jsonl");
  std::ofstream file(path);
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    std::string ids = "1";
    for (auto more = 1 + static_cast<std::int64_t>(random() % (kSeq / (i % 4 == 0 ? 1 : 5))); more > 1;
         --more)
      ids += ",2";
    file << "{\"input_ids\": [" << ids << ",3], \"labels\": [" << ids << ",3]}\n";
  }
  return path.string();
}

enum class Packing { packs, adapters, dynamic };

/// adapters: LoRA's, of all linear layers; dynamic: with dynamic_context_parallel.
RunConfig config_of(const Layout& layout, const std::string& chats, Packing packing) {
  RunConfig config;
  config.model = small_qwen2();
  widen(config.model, 2, 4096, 16);
  config.model.position.max = kSeq;
  config.batch = {.seq_length = kSeq, .micro_batch_size = 1, .global_batch_size = 4, .packed_sequence = true};
  config.generation.task = RunTask::sft;
  config.files.data = chats;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.measure.warmup_steps = 0;
  set_layout(config, layout);
  config.batch.dynamic_context_parallel = packing == Packing::dynamic;
  if (packing == Packing::dynamic) config.parallel.context = layout.data;
  if (packing == Packing::adapters) config.finetune = {Frozen::lora, 32, 64, LoraTargets::all};
  add_packed_work(config);
  config.measure.steps =
      static_cast<int>(std::ssize(read_packed_chats(config).first_of) / config.batch.global_batch_size);
  return config;
}

TrainingResult emulated(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware) {
  MpiCommunicator control(config.layout());
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
  const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
  return train(on_emulated_device(config, schedule, hardware, control.rank()), schedule, *operators,
               communicator, control, untouched_memory(), {}, nullptr, {},
               [&clock] { return clock.worked(); });
}

void expect_as_predicted(const Layout& layout, const std::string& chats, Packing packing) {
  const std::string name = fmt::format("tp{} pp{} dp{}{}", layout.tensor, layout.pipeline, layout.data,
                                       packing == Packing::dynamic    ? " dynamic"
                                       : packing == Packing::adapters ? " LoRA"
                                                                      : "");
  const RunConfig config = config_of(layout, chats, packing);
  const Schedule schedule = schedule_for(config);
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  const Prediction prediction = predict(config, schedule, hardware);
  const TrainingResult result = emulated(config, schedule, hardware);
  ASSERT_TRUE(result.attention) << name;
  EXPECT_LT(result.attention->mean, 0.6) << name;
  EXPECT_NEAR(result.attention->mean / config.batch.packed.mean, 1, 1e-12) << name;
  EXPECT_NEAR(result.attention->slowest / config.batch.packed.slowest, 1, 1e-12) << name;
  double seconds = 0;
  for (const Seconds step : result.step_times) seconds += step.value / config.measure.steps;
  EXPECT_NEAR(prediction.time.step.value / seconds, 1,
              layout.pipeline > 1 && packing == Packing::dynamic ? 0.035 : 0.015)
      << name;
  for (std::size_t rank = 0; rank < result.memory.size(); ++rank) {
    EXPECT_EQ(result.memory[rank].at_peak.total(),
              prediction.memory.of_rank(static_cast<int>(rank)).peak.total())
        << name << " rank " << rank;
  }
  if (packing == Packing::dynamic) {
    const int rank = world_rank();
    const Coordinates at = config.layout().coordinates(rank);
    const Traffic predicted = dynamic_traffic(
        config, schedule)[static_cast<std::size_t>(at.pipeline)][static_cast<std::size_t>(at.data)];
    EXPECT_TRUE(same(predicted, result.step_traffic)) << name;
    EXPECT_GT(predicted.messages_sent, 0) << name;
  }
  RunConfig whole = config;
  whole.batch.packed = {};
  fmt::print("{}: attention {:.3f}, slowest {:.3f}; step {:.3f} ms, predicted {:.3f}, unpacked {:.3f}\n",
             name, config.batch.packed.mean, config.batch.packed.slowest, 1e3 * seconds,
             1e3 * prediction.time.step.value, 1e3 * predict(whole, schedule, hardware).time.step.value);
}

TEST(SftEmulated, TimeMemoryAndAttentionAreThePredictedOnes) {
  const int ranks = world_ranks();
  const std::string chats = write_chats(100);
  for (const Layout& layout : layouts_of(ranks)) {
    if (ranks < 4) expect_as_predicted(layout, chats, Packing::packs);
    if (ranks < 4) expect_as_predicted(layout, chats, Packing::adapters);
    if (layout.data > 1) expect_as_predicted(layout, chats, Packing::dynamic);
  }
  std::filesystem::remove(chats);
}

}  // namespace
}  // namespace plumbline::training::sft_emulated_test
