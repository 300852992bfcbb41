// Benchmarks and checks of nodes over two hosts, which are namespaces (bench/several_hosts.sh).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::bench_hosts_test {
namespace {

using testing::HasSubstr;

class BenchHosts : public ProgramFolder {
 protected:
  void SetUp() override {
    if (on_hosts("true") == 77) GTEST_SKIP() << read("hosts.err");
  }
  /// Exit code of a command that starts on the first of two hosts; its output is in hosts.out and hosts.err.
  int on_hosts(const std::string& command) const {
    const int status = std::system(
        fmt::format("cd {} && {} P={} bash {}/bench/several_hosts.sh 2 bash -c '{}' >hosts.out 2>hosts.err",
                    folder_.string(), environment(), PLUMBLINE_PROGRAM, PLUMBLINE_SOURCE_DIR, command)
            .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(BenchHosts, CollectivesNameTheHostsOfAGroup) {
  ASSERT_EQ(on_hosts("$P bench collective all-reduce all-to-all latency --hostfile $PLUMBLINE_HOSTFILE "
                     "--sizes 64:4K:64 --time-limit 0.05 --json"),
            0)
      << read("hosts.err");
  const auto rows = nlohmann::json::parse(read("hosts.out"));
  ASSERT_EQ(rows.size(), 8U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["ranks"], 2);
    EXPECT_EQ(row["nodes"], 2);
    EXPECT_EQ(row["ranksPerNode"], 1);
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_GT(row["time"], 0);
  }
}

TEST_F(BenchHosts, NodesAreCheckedByName) {
  // Both hosts have the same processors: a rank may well be slower.
  const int code =
      on_hosts("$P doctor --nodes --hosts $PLUMBLINE_HOSTFILE --time-limit 0.05 --json --passing good.txt");
  ASSERT_TRUE(code == 0 || code == 1) << read("hosts.err");
  const auto json = nlohmann::json::parse(read("hosts.out"));
  std::set<std::string> hosts;
  for (const auto& rank : json["ranks"]) hosts.insert(rank["host"]);
  EXPECT_EQ(hosts, (std::set<std::string>{"host1", "host2"}));
  EXPECT_EQ(json["failed"].empty(), code == 0);
  if (code == 0) {
    EXPECT_THAT(read("good.txt"), HasSubstr("host1 slots=1\n"));
  }
}

}  // namespace
}  // namespace plumbline::bench_hosts_test
