// Ranks that are slow on purpose are named, and no others.
#include "bench/measure/nodes/node_bench.hpp"

#include <gtest/gtest.h>

#include "bench/training/trainer/slowed_operators.hpp"
#include "core/backends/mpi/mpi_header.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::node_bench_test {
namespace {

constexpr int kRuns = 20;

/// Ranks that fail, in `runs` checks with one rank slowed, or none (-1); the same on all ranks.
std::vector<std::vector<int>> failed_ranks(int slow_rank, double factor) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto operators = make_cpu_operators();
  const auto memory = host_memory();
  training::SlowedOperators slowed(*operators, factor);
  NodeBenchOptions options;
  options.limit_s = 0.01;
  options.product.m = options.product.n = options.product.k = 192;
  std::vector<std::vector<int>> failed;
  for (int run = 0; run < kRuns; ++run) {
    NodeReport own;
    own.rank = rank;
    own.host = "host";
    auto reports = bench_nodes(rank == slow_rank ? slowed : *operators, *memory, own, options);
    failed.emplace_back();
    if (rank != 0) continue;
    judge(reports, options.limits);
    for (const NodeReport& report : reports) {
      EXPECT_EQ(report.pairs.size(), reports.size() - 1);
      EXPECT_GT(report.clock, 0);
      for (const PairReport& pair : report.pairs) {
        EXPECT_GT(pair.latency_s, 0);
        EXPECT_GT(pair.bandwidth, 1e6);
      }
      if (report.passed()) continue;
      failed.back().push_back(report.rank);
      if (slow_rank < 0) ADD_FAILURE() << report.reasons.front();
    }
  }
  return failed;
}

TEST(NodeBench, NamesTheSlowRankEveryTime) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto& failed : failed_ranks(1, 1.4)) {
    EXPECT_EQ(failed, rank == 0 ? std::vector<int>{1} : std::vector<int>{});
  }
}

TEST(NodeBench, NamesNoneOfQuietRanks) {
  for (const auto& failed : failed_ranks(-1, 1)) EXPECT_TRUE(failed.empty());
}

}  // namespace
}  // namespace plumbline::node_bench_test
