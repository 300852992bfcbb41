// Device memory of a CUDA process besides its tensors: the counted communicators, and the remaining room.
#include "analysis/memory/device_memory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/fit.hpp"
#include "analysis/predict/predict.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::device_memory_test {
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
    int context = 1, ring_channels = 0;
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
      {"ring", 1, 1, 4, false, false, 3, 1, 2, 4, 2},
      {"gathered", 1, 1, 4, false, false, 3, 1, 0, 4, 0},
      // world; data and context; pipeline with its ends.
      {"ring and pipeline", 1, 2, 2, true, false, 2, 3, 4, 2, 2},
      // world and data; an instance; between instances.
      {"two instances of two", 1, 1, 4, false, false, 0, 3, 0, 1, 0, 2},
      // Calls that the device starts keep an order of their own, not that of the data group.
      {"instances of one rank", 1, 1, 4, false, false, 0, 2, 0, 1, 0, 1},
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
    const auto found = predict_device_memory(layout, channel_ends(chain(c.pipeline, c.backward)), digits(),
                                             tensors_of(layout), 0.25, c.ring_channels);
    ASSERT_TRUE(found);
    const RankDeviceMemory& rank = found->ranks.at(static_cast<std::size_t>(c.rank / found->ranks_alike));
    EXPECT_EQ(rank.groups, c.groups);
    EXPECT_EQ(rank.channels, c.channels);
    const bool talks = c.groups + c.channels > 0;
    EXPECT_EQ(rank.outside_tensors().value, 1'110'000 + (talks ? 1'000 + 100 * c.groups + c.channels : 0));
    EXPECT_EQ(found->fullest().tensors.value, 20'000'000);
    EXPECT_EQ(found->fullest().margin.value, 5'000'000);
    const std::int64_t left = (found->device - found->ranks[0].outside_tensors()).value;
    const std::int64_t room = found->budget().value;
    EXPECT_LE(room + room / 4, left);
    EXPECT_GT(room + 1 + (room + 1) / 4, left);
  }
}

// Rings and trees: two neighbours on four channels per network card, at most 16, of 12 MiB each; within a
// node 24 channels, and 32 MiB per rank from three ranks on. Eight ranks on a node are 832 MiB, or 100 in
// digits().
TEST(DeviceMemory, ACommunicatorBetweenNodesHasFewerChannels) {
  struct Case {
    const char* name;
    int tensor, pipeline, data, rank, node;
    std::int64_t nccl;
  };
  constexpr std::int64_t kTwo = 69, kFour = 84, kEight = 100;  // on a node
  constexpr std::int64_t kOneEach = 23, kTwoEach = 46, kMoreEach = 92;
  constexpr Case kCases[] = {
      {"a node", 8, 1, 1, 0, 8, kEight},
      {"unknown nodes", 1, 1, 64, 0, 0, kEight},
      // tensor; world; data.
      {"one data rank per node", 8, 1, 4, 9, 8, kEight + kMoreEach + kOneEach},
      {"two data ranks per node", 4, 1, 4, 9, 8, kFour + kMoreEach + kTwoEach},
      {"four data ranks per node", 2, 1, 8, 9, 8, kTwo + kMoreEach + kMoreEach},
      // tensor and data; world and model; pipeline, which is embedding and mirror as well.
      {"stages on other nodes", 4, 2, 2, 0, 8, kFour + kTwo + kMoreEach + kMoreEach + kOneEach},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Layout layout;
    layout.tensor = c.tensor;
    layout.pipeline = c.pipeline;
    layout.data = c.data;
    const std::vector<int> no_channels(static_cast<std::size_t>(c.pipeline));
    EXPECT_EQ(process_memory(layout, no_channels, digits(), c.rank, 0, c.node).nccl.value, 1'000 + c.nccl);
    for (int group = 0; group < kGroups; ++group) {
      const std::vector<int> members = layout.members(static_cast<Group>(group), c.rank);
      const auto together = [&](int rank) { return c.node == 0 || rank / c.node == c.rank / c.node; };
      EXPECT_EQ(members_on_node(layout, static_cast<Group>(group), c.rank, c.node),
                std::count_if(members.begin(), members.end(), together));
    }
  }
}

TEST(DeviceMemory, RingsHaveTheirCommunicators) {
  HardwareProfile hardware;
  hardware.overhead = digits();
  struct Case {
    int context, channels;
    bool dynamic;
  };
  // The first of eight ranks closes rings of two and of four.
  for (const Case& c :
       {Case{1, 0, false}, Case{8, 2, false}, Case{2, 2, true}, Case{4, 3, true}, Case{8, 4, true}}) {
    RunConfig config;
    config.parallel.world_size = config.parallel.context = c.context;
    config.batch.dynamic_context_parallel = c.dynamic;
    const auto found = device_memory_of(config, {0}, hardware, tensors_of(config.layout()), {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ranks.front().channels, c.channels) << c.context << c.dynamic;
  }
}

TEST(DeviceMemory, NothingIsSaidWhereTheProfileKnowsNoDevice) {
  const Layout layout;
  EXPECT_FALSE(predict_device_memory(layout, channel_ends(chain(1, false)), DeviceOverhead{},
                                     tensors_of(layout), 0.25));
}

TEST(DeviceMemory, TheRoomForTensorsIsTheMostThatFits) {
  for (const double share : {0.0, 0.02, 0.04, 0.25}) {
    for (const std::int64_t device : {1'110'001, 1'110'053, 2'000'000, 99'999'999}) {
      SCOPED_TRACE(fmt::format("{} of {}", share, device));
      DeviceOverhead overhead = digits();
      overhead.device = {device};
      const Layout layout;
      const std::vector<int> ends = channel_ends(chain(1, false));
      const Bytes room =
          room_for_tensors(overhead.device, process_memory(layout, ends, overhead, 0, 0, 0), share);
      for (const std::int64_t more : {0, 1}) {
        MemoryPrediction memory = tensors_of(layout);
        memory.ranks[0].peak[Category::activations] = room + Bytes{more};
        const auto found = predict_device_memory(layout, ends, overhead, memory, share);
        EXPECT_EQ(found->fullest().needed() <= found->device, more == 0);
      }
    }
  }
}

/// A card with room for the tensors but not for the context, or not for the allocator's margin as well, on
/// any backend.
TEST(DeviceMemory, DecidesWhatFits) {
  RunConfig config = sample::tiny_qwen2();
  HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  config.numerics.precision = DType::bf16;
  const Schedule schedule = sample::one_rank(2);
  hardware.overhead = digits();
  for (const Backend backend : {Backend::cpu, Backend::cuda, Backend::emulated}) {
    for (const auto& [name, software] : built_in_profiles().software) {
      SCOPED_TRACE(name);
      config.machine.backend = backend;
      config.machine.memory_budget = {};
      config.machine.software = name;
      if (software.fp8.always) continue;  // needs a recipe
      const Prediction p = predict(config, schedule, hardware);
      ASSERT_TRUE(p.device);
      const Bytes tensors = p.memory.peak;
      EXPECT_GT(p.device->fullest().margin.value, 0);
      EXPECT_EQ(p.fit.needed, tensors + Bytes{1'110'000} + p.device->fullest().margin);
      for (const std::int64_t less : {0, 1}) {
        hardware.overhead.device = p.fit.needed - Bytes{less};
        const Fit fit = predict(config, schedule, hardware).fit;
        EXPECT_EQ(fit.fits, less == 0);
        EXPECT_TRUE(fit.by_device);
        EXPECT_EQ(fit.limit, hardware.overhead.device);
        EXPECT_EQ(fit.fits, tensors <= fit.budget);
        EXPECT_EQ(fit.budget, tensor_budget(config, schedule, hardware, 0));
      }
      config.machine.memory_budget = tensors;  // the user's word counts
      hardware.overhead.device = kMiB;
      EXPECT_TRUE(predict(config, schedule, hardware).fit.fits);
      config.machine.memory_budget = tensors - Bytes{1};
      EXPECT_FALSE(predict(config, schedule, hardware).fit.fits);
      hardware.overhead.device = digits().device;
    }
  }
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

/// Eight ranks on a node, a channel, and a middle stage of PP 4 x TP 2 on 8 GPUs: its tensor and mirror
/// groups, pipeline and world, of two, two, four and eight ranks, and four channels.
TEST(DeviceMemory, OfNcclIsThatOfNcclsOwnSizes) {
  const DeviceOverhead overhead = load_hardware("h100-sxm-80gb").overhead;
  EXPECT_EQ(group_communicator(overhead, 8, true), kMiB * 832);
  EXPECT_EQ(group_communicator(overhead, 2, true), kMiB * 576);
  EXPECT_EQ(message_communicator(overhead), kMiB * 55);
  DeviceOverhead others = overhead;
  others.connects_all = false;
  EXPECT_EQ(group_communicator(others, 8, true), kMiB * 544);
  EXPECT_EQ(group_communicator(others, 2, true), kMiB * 288);
  EXPECT_EQ(message_communicator(others), kMiB * 96);
  Layout layout;
  layout.tensor = 2;
  layout.pipeline = 4;
  const RankDeviceMemory middle =
      process_memory(layout, channel_ends(chain(4, true)), overhead, layout.rank_of({0, 0, 1}), 0, 8);
  EXPECT_EQ(middle.nccl, kMiB * (2 * 576 + 704 + 832 + 4 * 55));
}

/// Two ranks that shared a GPU have measured sockets.
TEST(DeviceMemory, OfNcclIsNotThatOfACalibrationOnOneGpu) {
  const std::string recorded = PLUMBLINE_SOURCE_DIR "/results/recorded/nvidia-h100-80gb-hbm3/profile.json";
  const DeviceOverhead preset = load_hardware("h100-sxm-80gb").overhead;
  const DeviceOverhead calibrated = load_hardware(recorded).overhead;
  EXPECT_TRUE(calibrated.measured);
  EXPECT_NE(calibrated.context, preset.context);
  EXPECT_EQ(calibrated.nccl_group, preset.nccl_group);
  EXPECT_EQ(calibrated.nccl_channel, preset.nccl_channel);
  EXPECT_EQ(calibrated.nccl_first, Bytes{});
}

}  // namespace
}  // namespace plumbline::device_memory_test
