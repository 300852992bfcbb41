// Memory registered with NCCL, over the fake NCCL. It is registered with every communicator once, and
// released before it is freed and before the communicators end. It is not used at all if any rank cannot have
// it.
#include "core/backends/nccl/registered_memory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/tensor/segmented_memory.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::registered_memory_test {
namespace {

using fake::world;
using testing::HasSubstr;

/// Tensor and pipeline ranks, so that there are several communicators, of groups and of messages.
Layout layout_of_test() {
  Layout layout;
  layout.tensor = world() == 4 ? 2 : 1;
  layout.pipeline = world() / layout.tensor;
  return layout;
}

class RegisteredMemoryTest : public testing::Test {
 protected:
  RegisteredMemoryTest() : layout_(layout_of_test()), control_(layout_) {
    fake::registration() = {};
    NcclOptions options;
    for (int from = 0; from + 1 < layout_.pipeline; ++from) options.channels.push_back({from, from + 1});
    nccl_.emplace(layout_, control_, options);
  }
  ~RegisteredMemoryTest() override {
    nccl_.reset();
    EXPECT_EQ(fake::registration().alive, 0);
    EXPECT_EQ(fake::registration().pieces, 0);
    EXPECT_EQ(fake::registration().faults, 0);
    fake::registration() = {};
  }

  Layout layout_;
  MpiCommunicator control_;
  std::optional<NcclCommunicator> nccl_;
};

TEST_F(RegisteredMemoryTest, EveryPieceIsKnownToEveryCommunicatorOnceUntilItIsFreed) {
  std::string why;
  auto memory = RegisteredMemory::make(*nccl_, why);
  if (world() == 1) {
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(why, "one rank has no communicators");
    return;
  }
  ASSERT_NE(memory, nullptr) << why;
  const auto use = memory->shared_use();
  EXPECT_EQ(fake::registration().pieces, 0);  // the trial has gone
  void* first = memory->allocate({1 << 20});
  void* second = memory->allocate({3 << 20});
  const int communicators = nccl_->communicators();
  EXPECT_GE(communicators, 2);
  EXPECT_EQ(fake::registration().alive, 2 * communicators);
  EXPECT_EQ(use->now.value, 4 << 20);
  // It is the device's.
  Matrix ones(second, 1, 1000, DType::int32);
  std::fill_n(static_cast<std::int32_t*>(second), 1000, 1);
  nccl_->all_reduce(Group::world, ones, ReduceOp::sum);
  nccl_->barrier(Group::world);
  EXPECT_EQ(static_cast<std::int32_t*>(second)[999], world());
  memory->release(first, {1 << 20});
  EXPECT_EQ(fake::registration().alive, communicators);
  memory->release(second, {3 << 20});
  memory.reset();
  EXPECT_EQ(use->now.value, 0);
  EXPECT_EQ(use->most.value, 4 << 20);
  EXPECT_EQ(to_string(*use),
            fmt::format("registered with {} communicators of NCCL 2.28.9: 4194304 bytes in 2 pieces",
                        communicators));
}

TEST_F(RegisteredMemoryTest, AnArenaCountsItsTensorsAsEver) {
  std::string why;
  auto memory = RegisteredMemory::make(*nccl_, why);
  if (world() == 1) return;
  const auto use = memory->shared_use();
  {
    Arena arena({}, std::make_unique<SegmentedMemory>(std::move(memory)));
    const Tensor weights = arena.allocate(Category::parameters, "weights", 1000, 1000, DType::fp32);
    const Tensor buffer = arena.allocate(Category::communication, "buffer", 1, 7, DType::bf16);
    EXPECT_EQ(arena.allocated_total().value, 4'000'014);
    EXPECT_EQ(use->now.value, SegmentedMemory::kLeast.value);
    EXPECT_EQ(fake::registration().alive, nccl_->communicators());
  }
  EXPECT_EQ(use->now.value, 0);
}

TEST_F(RegisteredMemoryTest, WhatIsLeftIsForgottenBeforeTheCommunicatorsEnd) {
  static char memory[16];
  EXPECT_EQ(nccl_->register_memory(memory, {16}), "");
  EXPECT_EQ(fake::registration().alive, nccl_->communicators());
}

/// Operation that the last rank's NCCL refuses, and that rank's message.
struct Refusal {
  const char* name;
  void (*refuse)(fake::Registration&);
  const char* why;
};
const Refusal kRefusals[] = {
    {"old", [](fake::Registration& r) { r.version = 21805; }, "NCCL 2.18.5 has no ncclCommRegister"},
    {"no memory", [](fake::Registration& r) { r.has_memory = false; }, "ncclMemAlloc: fake error"},
    {"switched off", [](fake::Registration& r) { r.skips = true; }, "skipped by NCCL"},
    {"an error", [](fake::Registration& r) { r.allowed = 1; }, "ncclCommRegister of "},
};

TEST_F(RegisteredMemoryTest, NobodyHasItWhereOneCannot) {
  if (world() == 1) return;
  const bool last = control_.rank() == world() - 1;
  for (const Refusal& c : kRefusals) {
    SCOPED_TRACE(c.name);
    if (last) c.refuse(fake::registration());
    std::string why;
    EXPECT_EQ(RegisteredMemory::make(*nccl_, why), nullptr);
    EXPECT_THAT(why, HasSubstr(last ? c.why : "1 of the other ranks cannot register memory"));
    EXPECT_EQ(fake::registration().alive, 0);
    const int faults = fake::registration().faults;
    fake::registration() = {};
    fake::registration().faults = faults;
  }
}

TEST_F(RegisteredMemoryTest, ARefusalLaterEndsTheRun) {
  std::string why;
  auto memory = RegisteredMemory::make(*nccl_, why);
  if (world() == 1) return;
  fake::registration().allowed = 1;  // of two communicators or more
  EXPECT_THROW(memory->allocate({1 << 20}), Error);
  EXPECT_EQ(fake::registration().alive, 0);
  EXPECT_EQ(fake::registration().pieces, 0);
  fake::registration().has_memory = false;
  EXPECT_THROW(memory->allocate({1 << 20}), std::bad_alloc);
}

}  // namespace
}  // namespace plumbline::registered_memory_test
