// What is known of a machine's GPUs, as doctor and records tell it.
#include "bench/machine/cuda_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

CudaFacts one_gpu() {
  CudaFacts facts;
  facts.built = true;
  facts.devices = {{"NVIDIA H200", "9.0", Bytes{143771LL << 20}, Bytes{143000LL << 20}}};
  facts.versions = {{"nccl", "2.28.9"}, {"cudnn", ""}};
  return facts;
}

TEST(CudaFacts, WhatIsWrittenIsRead) {
  const CudaFacts read = parse_cuda_facts(to_json(one_gpu()).dump());
  EXPECT_TRUE(read.built);
  ASSERT_EQ(read.devices.size(), 1U);
  EXPECT_EQ(read.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(read.devices[0].free.value, 143000LL << 20);
  EXPECT_EQ(read.versions, one_gpu().versions);
  for (const char* wrong : {"", "[]", "{}", R"({"problem": 1, "devices": [], "versions": {}})"}) {
    EXPECT_THROW(parse_cuda_facts(wrong), InputError) << wrong;
  }
}

TEST(CudaFacts, WithoutADeviceOneLineSaysSo) {
  EXPECT_FALSE(why_no_cuda(one_gpu()));
  CudaFacts none;
  EXPECT_EQ(why_no_cuda(none).value_or(""),
            "backend: found cuda, but there is no GPU here; use cpu or emulated");
  none.problem = "this machine has no NVIDIA driver (libcuda.so.1)";
  EXPECT_THAT(why_no_cuda(none).value_or(""), HasSubstr("no NVIDIA driver"));
}

TEST(CudaFacts, RanksThatShareAGpuAreLabelled) {
  MachineReport alone;
  add_cuda(one_gpu(), 1, alone);
  EXPECT_EQ(alone.gpu, "NVIDIA H200, 143771 MiB");
  EXPECT_TRUE(alone.environment.empty());
  EXPECT_THAT(alone.versions, Contains(Pair("nccl", "2.28.9")));

  MachineReport shared;
  shared.environment = {{"NCCL_SOCKET_IFNAME", "eth0"}};
  add_cuda(one_gpu(), 2, shared);
  EXPECT_EQ(shared.gpu, "NVIDIA H200, 143771 MiB, shared-gpu: 2 ranks on 1 GPU");
  EXPECT_THAT(shared.environment, Contains(Pair("NCCL_HOSTID", "one per rank")));
  EXPECT_THAT(shared.environment, Contains(Pair("NCCL_SOCKET_IFNAME", "eth0")));  // the user's own stays
}

}  // namespace
}  // namespace plumbline
