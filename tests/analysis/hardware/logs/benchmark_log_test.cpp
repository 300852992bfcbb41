// Logs of nccl-tests, rccl-tests, OSU's benchmarks and perftest give back their figures.
#include "analysis/hardware/logs/benchmark_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "tests/analysis/hardware/logs/public_logs.hpp"

namespace plumbline::benchmark_log_test {
namespace {

using ::testing::HasSubstr;

/// Facts of one sweep, and one of its points.
struct Fact {
  const char* log;
  std::size_t sweep;
  LogOperation operation;
  int ranks, nodes;
  std::size_t points;
  std::size_t point;
  double bytes, microseconds;
};

TEST(BenchmarkLog, GivesBackTheFiguresOfPublicLogs) {
  using namespace public_logs;
  const Fact facts[] = {
      {kGb200, 0, LogOperation::all_reduce, 72, 0, 5, 4, 8589934592.0, 20299},
      {kGb200, 1, LogOperation::all_reduce, 72, 0, 5, 0, 536870912.0, 1835.9},
      {kA40, 0, LogOperation::unknown, 2, 2, 5, 0, 256, 34.24},
      {kV100, 0, LogOperation::all_reduce, 0, 0, 2, 1, 536870912.0, 244833},
      {kV100, 2, LogOperation::all_to_all, 0, 0, 2, 0, 268435456.0, 520935},
      {kBroadcast, 0, LogOperation::broadcast, 2, 2, 1, 0, 8, 45.82},
      {kBroadcast, 1, LogOperation::broadcast, 2, 2, 1, 0, 8, 38.17},
      {kH100Pair, 1, LogOperation::all_reduce, 0, 0, 2, 1, 2147483648.0, 18524},
      {kMi300x, 0, LogOperation::all_reduce, 8, 1, 1, 0, 8388608, 91.10},
      {kLabelled, 0, LogOperation::unknown, 0, 0, 3, 2, 33554432, 2180.1},
      {kLabelled, 1, LogOperation::unknown, 0, 0, 3, 0, 1048576, 2302.3},
      {kOsuBandwidth, 0, LogOperation::stream, 2, 0, 4, 3, 33554432, 33554432 / 93130.52},
      {kOsuPairs, 0, LogOperation::stream, 2, 0, 2, 1, 4096, 4096 / (168173.26 / 48)},
      {kWriteBandwidth, 0, LogOperation::stream, 2, 2, 1, 0, 8, 8 / (0.48e9 / 8) * 1e6},
  };
  for (const Fact& fact : facts) {
    SCOPED_TRACE(std::string(fact.log).substr(0, 200));
    const std::vector<LogSweep> sweeps = read_benchmark_log(fact.log, "log");
    ASSERT_GT(sweeps.size(), fact.sweep);
    const LogSweep& sweep = sweeps[fact.sweep];
    EXPECT_EQ(sweep.operation, fact.operation);
    EXPECT_EQ(sweep.ranks, fact.ranks);
    EXPECT_EQ(sweep.nodes, fact.nodes);
    ASSERT_EQ(sweep.points.size(), fact.points);
    EXPECT_DOUBLE_EQ(sweep.points[fact.point].bytes, fact.bytes);
    EXPECT_NEAR(sweep.points[fact.point].seconds * 1e6, fact.microseconds, 1e-9 * fact.microseconds);
  }
  EXPECT_EQ(read_benchmark_log(kMi300x, "log").front().device, "AMD Instinct MI300X");
  EXPECT_EQ(read_benchmark_log(kMi300x, "log").front().tool, "rccl-tests");
  // The printed bus bandwidth is the one of the times.
  const LogSweep gb200 = read_benchmark_log(kGb200, "log").front();
  EXPECT_NEAR(gb200.bus_factor, bus_factor_of(LogOperation::all_reduce, 72), 1e-3);
}

TEST(BenchmarkLog, TellsCollectivesByTheirColumns) {
  const auto table = [](const char* row) {
    return fmt::format(
        "# Using devices\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x31] NVIDIA H100\n"
        "#  Rank  7 Group  0 Pid 1 on a device  7 [0x31] NVIDIA H100\n{}\n",
        row);
  };
  const std::pair<const char*, LogOperation> rows[] = {
      {"8388608 2097152 float sum -1 91.10 92.08 161.14 0 94.94 88.36 154.63 0", LogOperation::all_reduce},
      {"8388608 262144 float sum -1 91.10 92.08 80.57 0 94.94 88.36 77.31 0", LogOperation::reduce_scatter},
      {"8388608 262144 float none -1 91.10 92.08 80.57 0 94.94 88.36 77.31 0", LogOperation::unknown},
      {"8388608 2097152 float none 0 91.10 92.08 92.08 0 94.94 88.36 88.36 0", LogOperation::broadcast},
      {"8388608 2097152 float sum 0 91.10 92.08 92.08 0 94.94 88.36 88.36 0", LogOperation::reduce},
      {"8388608 2097152 float sum -1 91.10 92.08 92.08 0 94.94 88.36 88.36 N/A", LogOperation::ring},
  };
  for (const auto& [row, operation] : rows)
    EXPECT_EQ(read_benchmark_log(table(row), "log").front().operation, operation) << row;
}

TEST(BenchmarkLog, TakesWhatTheLogLeavesOutFromTheUser) {
  std::vector<LogSweep> sweeps = read_benchmark_log(public_logs::kLabelled, "old.log");
  const auto refusal = [&](LogOperation operation, int ranks, int nodes) -> std::string {
    LogSweep sweep = sweeps.front();
    try {
      complete(sweep, operation, ranks, nodes, "old.log");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(LogOperation::unknown, 48, 6), HasSubstr("add --collective"));
  EXPECT_THAT(refusal(LogOperation::all_reduce, 0, 6), HasSubstr("add --ranks"));
  EXPECT_THAT(refusal(LogOperation::all_reduce, 48, 0), HasSubstr("add --nodes"));
  EXPECT_THAT(refusal(LogOperation::all_reduce, 48, 7), HasSubstr("48 ranks on 7 hosts"));
  EXPECT_EQ(refusal(LogOperation::all_reduce, 48, 6), "");
}

TEST(BenchmarkLog, CountsWhatOsuSendsToEachPeer) {
  std::vector<LogSweep> sweeps = read_benchmark_log(
      "# OSU MPI Allgather Latency Test v5.6\n# Size       Avg Latency(us)\n1024              10.00\n",
      "osu");
  ASSERT_EQ(sweeps.size(), 1U);
  complete(sweeps.front(), LogOperation::unknown, 4, 2, "osu");
  EXPECT_EQ(sweeps.front().operation, LogOperation::all_gather);
  EXPECT_DOUBLE_EQ(sweeps.front().points.front().bytes, 4096);
}

TEST(BenchmarkLog, ReadsRecordsOfRcclTests) {
  const std::string row =
      R"({"name":"AllReduce", "nodes":2, "ranks":16, "ranksPerNode":8, "gpusPerRank":1, "size":1024, "type":"float", "redop":"sum", "inPlace":0, "time":12.5, "algBw":2, "busBw":3.75, "wrong":0})";
  const std::string csv =
      "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, algbw, busbw, #wrong\n"
      "AllReduce, 16, 8, 1, 1024, float, sum, 0, 12.5, 2, 3.75, 0\n";
  for (const std::string& text : {row + "\n", "[" + row + "]", "[\n " + row + ",\n " + row + "\n]\n", csv}) {
    const std::vector<LogSweep> sweeps = read_benchmark_log(text, "log");
    ASSERT_EQ(sweeps.size(), 1U) << text;
    EXPECT_EQ(sweeps[0].operation, LogOperation::all_reduce);
    EXPECT_EQ(sweeps[0].ranks, 16);
    EXPECT_EQ(sweeps[0].nodes, 2);
    EXPECT_DOUBLE_EQ(sweeps[0].points[0].seconds, 12.5e-6);
    EXPECT_DOUBLE_EQ(sweeps[0].bus_factor, 1.875);
  }
}

TEST(BenchmarkLog, SurvivesHostileTexts) {
  for (const char* text :
       {"", "\n\n", "# nothing here\n", "1e309 2 float sum -1 1 1 1 0 1 1 1 0\n", "{", "[{", "[{\"name\":1}]",
        "collective,size\nAllReduce,1e400\n", "\xff\xfe[1,0]<stdout>:\n"}) {
    EXPECT_THROW(read_benchmark_log(text, "log"), InputError) << text;
  }
  EXPECT_THROW(read_benchmark_log("8 2 float sum -1 1e300 1 1 0 1 1 1 0\n", "log"), InputError);
  std::mt19937 generator(82);
  const std::string logs = std::string(public_logs::kGb200) + public_logs::kV100 + public_logs::kOsuPairs +
                           public_logs::kWriteBandwidth + public_logs::kLabelled;
  for (int i = 0; i < 400; ++i) {
    std::string spoiled = logs;
    for (int change = 0; change < 40; ++change) {
      const std::size_t at = generator() % spoiled.size();
      const auto byte = static_cast<char>(generator());
      if (generator() % 3 == 0) {
        spoiled.erase(at, generator() % 30);
      } else {
        spoiled[at] = byte;
      }
    }
    try {
      for (const LogSweep& sweep : read_benchmark_log(spoiled, "log")) {
        for (const LogPoint& point : sweep.points) EXPECT_TRUE(point.bytes > 0 && point.seconds > 0);
      }
    } catch (const InputError&) {  // one line that says why
    }
  }
}

}  // namespace
}  // namespace plumbline::benchmark_log_test
