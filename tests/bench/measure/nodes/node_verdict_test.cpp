// Verdicts on nodes, their reports as JSON, and facts of a host from a folder in place of sysfs.
#include "bench/measure/nodes/node_verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "bench/measure/nodes/node_facts.hpp"
#include "core/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::node_verdict_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Four hosts, one rank each, alike.
std::vector<NodeReport> alike() {
  std::vector<NodeReport> reports(4);
  for (int rank = 0; rank < 4; ++rank) {
    NodeReport& report = reports[static_cast<std::size_t>(rank)];
    report.rank = rank;
    report.host = "n" + std::to_string(rank);
    report.product_s = report.copy_s = 1e-3;
    report.clock = 1e9;
    for (int other = 0; other < 4; ++other) {
      if (other != rank) report.pairs.push_back({other, 2e-6, 10e9});
    }
    report.health.celsius = 50;
    report.health.nvlinks = 18;
    report.health.pcie_width = report.health.most_pcie_width = 16;
    report.health.uncorrected_errors = 0;
    report.health.nics = {{"mlx5_0 port 1", 400, true}, {"mlx5_1 port 1", 400, false}};
    report.health.nics[1].active = true;
  }
  return reports;
}

TEST(NodeVerdict, FailsARankWithTheReason) {
  struct Case {
    const char* name;
    std::function<void(NodeReport&)> spoil;
    const char* reason;  // empty: it passes
  };
  const Case cases[] = {
      {"quiet", [](NodeReport&) {}, ""},
      {"a little slow", [](NodeReport& r) { r.product_s *= 1.09; }, ""},
      {"slow", [](NodeReport& r) { r.product_s *= 1.2; }, "product: 1.20 x the median rank"},
      {"low clock",
       [](NodeReport& r) {
         r.product_s *= 1.25;
         r.clock *= 0.8;
       },
       "product: 1.25 x the median rank, clock 80 % of the others'"},
      {"memory", [](NodeReport& r) { r.copy_s *= 1.6; }, "memory: a copy takes 1.60 x the median host"},
      {"one slow link", [](NodeReport& r) { r.pairs[0].bandwidth = 1e9; }, ""},
      {"slow links",
       [](NodeReport& r) {
         for (PairReport& pair : r.pairs) pair.bandwidth = 5e9;
       },
       "messages: best pair 5.00 GB/s, median rank 10.00"},
      {"hot", [](NodeReport& r) { r.health.celsius = 95; }, "temperature: 95 C"},
      {"ECC", [](NodeReport& r) { r.health.uncorrected_errors = 2; }, "ECC: 2 uncorrected"},
      {"corrected", [](NodeReport& r) { r.health.corrected_errors = 2; }, ""},
      {"PCIe", [](NodeReport& r) { r.health.pcie_width = 8; }, "PCIe: 8 lanes of 16"},
      {"NVLink", [](NodeReport& r) { r.health.nvlinks = 17; }, "NVLink: 17 links, other GPUs 18"},
      {"power", [](NodeReport& r) { r.health.throttled = {"sw_power_cap"}; }, ""},
      {"heat", [](NodeReport& r) { r.health.throttled = {"hw_thermal_slowdown"}; }, "clocks: hw_thermal"},
      {"port down", [](NodeReport& r) { r.health.nics[0].active = false; }, "mlx5_0 port 1: down"},
      {"port slow", [](NodeReport& r) { r.health.nics[1].gbit = 100; },
       "mlx5_1 port 1: 100 Gbit/s, other nodes 400"},
      {"unknown", [](NodeReport& r) { r.health = {}; }, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<NodeReport> reports = alike();
    c.spoil(reports[2]);
    judge(reports, {});
    for (const NodeReport& report : reports) {
      if (report.rank != 2 || *c.reason == '\0') {
        EXPECT_THAT(report.reasons, IsEmpty()) << report.rank;
      } else {
        EXPECT_THAT(report.reasons, ElementsAre(HasSubstr(c.reason)));
      }
    }
  }
}

TEST(NodeVerdict, ComparesTwoRanksWithTheFasterOne) {
  EXPECT_THAT(factors_of({1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(factors_of({2, 1}), ElementsAre(2, 1));
  EXPECT_THAT(factors_of({3}), ElementsAre(1));
  EXPECT_FALSE(any_slow({1, 1.05}, {1, 1.2}, {7, 8}, {}));
  EXPECT_TRUE(any_slow({1, 1.2}, {1, 1}, {7, 8}, {}));
  EXPECT_TRUE(any_slow({1, 1}, {1.3, 1}, {7, 8}, {}));
  EXPECT_FALSE(any_slow({1, 1}, {1.3, 1}, {7, 7}, {}));  // they share a host's memory
  EXPECT_THAT(host_factors_of({4, 1, 2, 3}, {9, 5, 9, 5}), ElementsAre(2, 1, 2, 1));
}

TEST(NodeVerdict, WritesHostsOfWhichAllRanksPassed) {
  std::vector<NodeReport> reports = alike();
  reports[1].host = "n0";
  reports[3].reasons = {"slow"};
  EXPECT_EQ(passing_hostfile(reports), "n0 slots=2\nn2 slots=1\n");
  reports[0].reasons = {"slow"};
  EXPECT_EQ(passing_hostfile(reports), "n2 slots=1\n");
  reports[2].product_factor = 1.1;
  EXPECT_EQ(slowest_rank(reports).rank, 2);
}

TEST(NodeReport, IsReadAsItWasWritten) {
  NodeReport report = alike()[3];
  report.health.throttled = {"sw_power_cap"};
  report.reasons = {"slow"};
  const std::string json = to_json(report).dump();
  EXPECT_EQ(to_json(parse_node_report(json, "x")).dump(), json);
  EXPECT_THROW(parse_node_report("{}", "x"), InputError);
  EXPECT_THROW(parse_node_report(R"({"rank": "a"})", "x"), InputError);
}

class NodeFacts : public testing::Test, protected test::TemporaryFolder {};

TEST_F(NodeFacts, ComeFromSysfs) {
  const std::pair<const char*, const char*> files[] = {
      {"class/thermal/thermal_zone0/temp", "41000"},
      {"class/hwmon/hwmon1/temp2_input", "63500"},
      {"class/hwmon/hwmon1/temp2_crit", "100000"},
      {"devices/system/edac/mc/mc0/ce_count", "3"},
      {"devices/system/edac/mc/mc1/ce_count", "4"},
      {"devices/system/edac/mc/mc0/ue_count", "1"},
      {"class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"},
      {"class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)"},
      {"class/infiniband/mlx5_1/ports/1/state", "1: DOWN"},
      {"class/net/eth0/device/vendor", "0x15b3"},
      {"class/net/eth0/speed", "25000"},
      {"class/net/eth0/operstate", "up"},
      {"class/net/lo/operstate", "unknown"},
  };
  for (const auto& [name, text] : files) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  const NodeHealth health = health_of_host(folder_.string());
  EXPECT_EQ(health.celsius, 63.5);
  EXPECT_EQ(health.corrected_errors, 7);
  EXPECT_EQ(health.uncorrected_errors, 1);
  EXPECT_THAT(health.nics, ElementsAre(NicReport{"mlx5_0 port 1", 400, true},
                                       NicReport{"mlx5_1 port 1", 0, false}, NicReport{"eth0", 25, true}));
  EXPECT_EQ(health_of_host("/nowhere").celsius, -1);
  EXPECT_THAT(health_of_host("/nowhere").nics, IsEmpty());
}

}  // namespace
}  // namespace plumbline::node_verdict_test
