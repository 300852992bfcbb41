// Device memory of a CUDA process besides its tensors: which communicators are counted, and what then fits.
#include "analysis/memory/device_memory.hpp"

#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline {
namespace {

/// Every part another power of ten, so that a sum tells how often each was counted.
DeviceOverhead digits() {
  return {{100'000'000}, {1'000'000}, {100'000}, {10'000}, {1'000}, {100}, {1}, true};
}

MemoryPrediction tensors_of(const Layout& layout) {
  MemoryPrediction memory;
  memory.ranks_alike = layout.tensor * layout.data;
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    RankMemory row;
    row.rank = layout.rank_of({0, 0, rank});
    row.pipeline_rank = rank;
    row.peak[Category::activations] = {rank == 0 ? 20'000'000 : 10'000'000};
    memory.ranks.push_back(row);
  }
  return memory;
}

/// `P` stages, one micro-batch, every stage sends forward; backward too when asked.
Schedule chain(int P, bool backward) {
  Schedule schedule;
  schedule.ranks = P;
  schedule.microbatches = 1;
  schedule.actions.resize(static_cast<std::size_t>(P));
  for (int stage = 0; stage < P; ++stage) {
    schedule.rank_of_stage.push_back(stage);
    const auto number = static_cast<std::uint16_t>(stage);
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    if (stage + 1 < P) {
      actions.push_back({ActionType::send_forward, false, number, 0});
      actions.push_back({ActionType::send_forward, false, number, 1});
    }
    if (stage > 0 && backward) actions.push_back({ActionType::send_backward, false, number, 0});
  }
  return schedule;
}

TEST(DeviceMemory, CommunicatorsAreCountedOncePerSetOfMembersAndDirection) {
  struct Case {
    const char* name;
    int tensor, pipeline, data;
    bool backward, vocabulary;
    int rank, groups, channels;
    int context = 1, ring = 1;
    int instance = 0;
  };
  constexpr Case kCases[] = {
      {"alone", 1, 1, 1, false, false, 0, 0, 0},
      // world, tensor, model and shared_kv have the same members.
      {"tensor", 2, 1, 1, false, false, 0, 1, 0},
      {"data", 1, 1, 2, false, false, 1, 1, 0},
      {"first of a pipeline of two", 1, 2, 1, true, false, 0, 1, 2},
      {"forward only", 1, 2, 1, false, false, 1, 1, 1},
      // pipeline, and the two ends as embedding and mirror group.
      {"first of three", 1, 3, 1, true, false, 0, 2, 2},
      {"middle of three", 1, 3, 1, true, false, 1, 1, 4},
      // world; tensor; pipeline, which is also embedding and mirror; no data group.
      {"tensor and pipeline", 2, 2, 1, true, false, 3, 3, 2},
      // The five groups of vocabulary parallelism have communicators of their own.
      {"vocabulary", 1, 2, 1, true, true, 0, 6, 2},
      // world, data and context; from and to a neighbour.
      {"ring", 1, 1, 4, false, false, 3, 1, 2, 4, 4},
      {"gathered", 1, 1, 4, false, false, 3, 1, 0, 4, 1},
      // world; data and context; pipeline with its ends.
      {"ring and pipeline", 1, 2, 2, true, false, 2, 3, 4, 2, 2},
      // world and data; an instance; between instances.
      {"two instances of two", 1, 1, 4, false, false, 0, 3, 0, 1, 1, 2},
      // What is started by the device keeps an order of its own: not that of the data group.
      {"instances of one rank", 1, 1, 4, false, false, 0, 2, 0, 1, 1, 1},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Layout layout;
    layout.tensor = c.tensor;
    layout.pipeline = c.pipeline;
    layout.data = c.data;
    layout.vocab_parallel = c.vocabulary;
    layout.context = c.context;
    layout.optimizer_instance = c.instance;
    const auto found =
        predict_device_memory(layout, chain(c.pipeline, c.backward), digits(), tensors_of(layout), c.ring);
    ASSERT_TRUE(found);
    const RankDeviceMemory& rank = found->ranks.at(static_cast<std::size_t>(c.rank / found->ranks_alike));
    EXPECT_EQ(rank.groups, c.groups);
    EXPECT_EQ(rank.channels, c.channels);
    const bool talks = c.groups + c.channels > 0;
    EXPECT_EQ(rank.outside_tensors().value, 1'110'000 + (talks ? 1'000 + 100 * c.groups + c.channels : 0));
    EXPECT_EQ(found->fullest().tensors.value, 20'000'000);
    EXPECT_EQ(found->budget(), found->device - found->ranks[0].outside_tensors());
    EXPECT_TRUE(found->fits());
  }
}

TEST(DeviceMemory, NothingIsSaidWhereTheProfileKnowsNoDevice) {
  const Layout layout;
  EXPECT_FALSE(predict_device_memory(layout, chain(1, false), DeviceOverhead{}, tensors_of(layout)));
}

/// A card with room for the tensors, but not for the context as well.
TEST(DeviceMemory, DecidesWhatFitsOnBackendCudaOnly) {
  RunConfig config = sample::tiny_qwen2();
  HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  const Schedule schedule = sample::one_rank(2);
  const Bytes tensors = predict(config, schedule, hardware).memory.peak;
  hardware.memory = tensors + Bytes{1'109'000};
  hardware.overhead = digits();
  hardware.overhead.device = hardware.memory;
  EXPECT_TRUE(predict(config, schedule, hardware).fits);

  config.machine.backend = Backend::cuda;
  const Prediction on_cuda = predict(config, schedule, hardware);
  EXPECT_FALSE(on_cuda.fits);
  EXPECT_EQ(on_cuda.budget, hardware.memory - Bytes{1'110'000});
  hardware.overhead.device += kMiB;
  EXPECT_TRUE(predict(config, schedule, hardware).fits);

  config.machine.memory_budget = tensors;  // the user's word counts
  hardware.overhead.device = kMiB;
  EXPECT_TRUE(predict(config, schedule, hardware).fits);
}

TEST(DeviceMemory, AProfileKeepsIt) {
  HardwareProfile profile = load_hardware("a100-sxm-80gb");
  EXPECT_TRUE(profile.overhead.known());
  EXPECT_FALSE(profile.overhead.measured);
  EXPECT_GT(profile.overhead.context.value, 0);
  profile.overhead = digits();
  EXPECT_EQ(parse_hardware(to_json(profile), "test").overhead, digits());
  profile.overhead = {};
  EXPECT_FALSE(parse_hardware(to_json(profile), "test").overhead.known());
}

}  // namespace
}  // namespace plumbline
