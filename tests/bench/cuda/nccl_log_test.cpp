// The ways of NCCL's messages, read off its log.
#include "bench/cuda/nccl_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace plumbline::nccl_log_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NcclLog, NamesEveryWayOnce) {
  EXPECT_THAT(nccl_transports(""), IsEmpty());
  EXPECT_THAT(nccl_transports("host:12:34 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0\n"),
              IsEmpty());
  EXPECT_THAT(
      nccl_transports("h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
                      "h:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
                      "h:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0(2)/Shared\n"
                      "h:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
                      "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(0)/GDRDMA\n"
                      "h:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/3/GDRDMA/Shared\n"
                      "h:1:2 [0] NCCL INFO NVLS comm 0x55 headRank 0 nHeads 8\n"
                      "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer"),
      ElementsAre("NET/IB/GDRDMA", "NET/Socket", "NVLS", "P2P/CUMEM", "P2P/direct", "SHM/direct"));
}

TEST(NcclLog, WarningsAreShownWhenSomethingFails) {
  EXPECT_EQ(nccl_warnings("h:1:2 [0] NCCL INFO all is well\n"), "");
  EXPECT_EQ(
      nccl_warnings("\n[2026] h:1:2 [0] misc/socket.cc:9 NCCL WARN no route to 10.0.0.2\nh NCCL INFO x"),
      "NCCL WARN no route to 10.0.0.2\n");
  testing::internal::CaptureStderr();
  try {
    const NcclLog log;
    std::ofstream(std::getenv("NCCL_DEBUG_FILE")) << "h:1:2 [0] NCCL WARN no route\n";
    throw std::runtime_error("failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "NCCL WARN no route\n");
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) ::unsetenv(name);
}

TEST(NcclLog, IsWrittenWhereNobodyAskedForAnother) {
  ASSERT_EQ(std::getenv("NCCL_DEBUG"), nullptr);
  std::string path;
  {
    const NcclLog log;
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
    path = std::getenv("NCCL_DEBUG_FILE");
    EXPECT_THAT(log.transports(), IsEmpty());
    // Nobody else can know its name, or reach it.
    const auto folder = std::filesystem::path(path).parent_path();
    EXPECT_EQ(folder.string().find(std::to_string(::getpid())), std::string::npos);
    EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
    std::ofstream(path) << "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n";
    EXPECT_THAT(log.transports(), ElementsAre("P2P/IPC"));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()))
      << "file and folder go with it";
  ::unsetenv("NCCL_DEBUG_FILE");
  ::setenv("NCCL_DEBUG", "WARN", 1);
  {
    const NcclLog log;
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "WARN");
    EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
    EXPECT_THAT(log.transports(), IsEmpty());
  }
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"}) ::unsetenv(name);
}

}  // namespace
}  // namespace plumbline::nccl_log_test
