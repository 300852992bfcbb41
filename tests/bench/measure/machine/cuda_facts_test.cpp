// Known facts of a machine's GPUs, as doctor and records show them.
#include "bench/measure/machine/cuda_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/measure/machine/cuda_program.hpp"
#include "core/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::cuda_facts_test {
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
  none.remedy = "install one";
  EXPECT_EQ(
      why_no_cuda(none).value_or(""),
      "backend: found cuda, but this machine has no NVIDIA driver (libcuda.so.1); install one, or use cpu "
      "or emulated");
}

namespace fs = std::filesystem;

/// A build folder with bench/ in it, where programs lie.
class CudaProgram : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(build_ / "bench");
    std::ofstream(build_ / "CMakeCache.txt") << '\n';
  }

  /// plumbline-cuda as a line of shell; empty: none.
  CudaFacts ask(const CudaBuild& build, const std::string& program) const {
    const fs::path path = cuda_program(build_ / "bench");
    fs::remove(path);
    if (!program.empty()) {
      std::ofstream(path) << "#!/bin/sh\n" << program << '\n';
      fs::permissions(path, fs::perms::owner_all);
    }
    return ask_cuda_program(build_ / "bench", build);
  }

  const test::TemporaryFolder temporary_;
  const fs::path& build_ = temporary_.folder_;
};

TEST_F(CudaProgram, OneReasonIsToldAndItIsTheOneThatApplies) {
  const std::string no_driver =
      "echo '{\"problem\": \"this machine has no NVIDIA driver\", \"devices\": [], \"versions\": {}}'";
  struct Case {
    const char* name;
    CudaBuild build;
    std::string program;
    bool built;
    std::string problem;
    std::string remedy;
  };
  const std::vector<Case> cases = {
      {"target left out",
       {},
       "",
       false,
       "configure found a CUDA toolkit, but its target was left out",
       "build it: cmake --build " + build_.string() + " --target plumbline_cuda_program"},
      {"no toolkit",
       {true, false, false, false, false},
       "",
       false,
       "configure found no CUDA toolkit",
       "install one and configure again"},
      {"no NCCL",
       {true, false, true, false, false},
       "",
       false,
       "a CUDA toolkit without NCCL",
       "install NCCL"},
      {"no CUPTI",
       {true, false, true, true, false},
       "",
       false,
       "a CUDA toolkit without CUPTI",
       "install CUPTI"},
      {"switched off",
       {false, false, false, false, false},
       "",
       false,
       "PLUMBLINE_WITH_CUDA=OFF",
       "-DPLUMBLINE_WITH_CUDA=ON"},
      {"sanitized",
       {true, true, false, true, true},
       "",
       false,
       "PLUMBLINE_SANITIZE leaves CUDA out",
       "without PLUMBLINE_SANITIZE"},
      {"no driver", {}, no_driver, true, "this machine has no NVIDIA driver", ""},
      {"libraries missing", {}, "exit 127", true, "plumbline-cuda does not start", "LD_LIBRARY_PATH"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const CudaFacts facts = ask(c.build, c.program);
    EXPECT_EQ(facts.built, c.built);
    EXPECT_THAT(facts.problem, HasSubstr(c.problem));
    EXPECT_THAT(facts.remedy,
                c.remedy.empty() ? testing::Matcher<std::string>(testing::IsEmpty()) : HasSubstr(c.remedy));
  }
  fs::remove(build_ / "CMakeCache.txt");
  EXPECT_EQ(ask({}, "").remedy, "build target plumbline_cuda_program and install again");
}

TEST(CudaFacts, RanksThatShareAGpuAreLabelled) {
  MachineReport alone;
  alone.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  add_cuda(one_gpu(), 1, alone);
  EXPECT_EQ(alone.gpu, "NVIDIA H200, 143771 MiB");
  EXPECT_THAT(alone.environment, testing::ElementsAre(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "32")));
  EXPECT_THAT(alone.versions, Contains(Pair("nccl", "2.28.9")));

  MachineReport shared;
  shared.environment = {{"NCCL_SOCKET_IFNAME", "eth0"}};
  add_cuda(one_gpu(), 2, shared);
  EXPECT_EQ(shared.gpu, "NVIDIA H200, 143771 MiB, shared-gpu: 2 ranks on 1 GPU");
  EXPECT_THAT(shared.environment, Contains(Pair("NCCL_HOSTID", "one per rank")));
  EXPECT_THAT(shared.environment, Contains(Pair("NCCL_SOCKET_IFNAME", "eth0")));  // the user's own stays
}

}  // namespace
}  // namespace plumbline::cuda_facts_test
