// Ranks that are slow on purpose are named, and no others.
#include "bench/measure/nodes/node_bench.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/training/trainer/slowed_operators.hpp"
#include "core/backends/mpi/mpi_header.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::node_bench_test {
namespace {

constexpr int kRuns = 20;

/// Ranks that fail, in each check with one rank slowed, or none (-1), as rank 0 sees them; why in `reasons`.
std::vector<std::vector<int>> failed_ranks(int slow_rank, double factor, std::string& reasons) {
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
      reasons += report.reasons.front() + "; ";
    }
  }
  return failed;
}

/// True if every run named `expected`, in one of three attempts: other programs slow this machine, too.
bool names(const std::vector<int>& expected, int slow_rank, double factor, std::string& reasons) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    reasons.clear();
    const auto failed = failed_ranks(slow_rank, factor, reasons);
    int all = std::ranges::all_of(failed, [&](const auto& each) { return each == expected; }) ? 1 : 0;
    MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (all != 0) return true;
  }
  return false;
}

/// Largest over smallest time of the same additions, over all ranks and some moments: the machine's own
/// unevenness, which no check of ranks can tell from a slow rank.
double unevenness() {
  constexpr int kSamples = 12;
  constexpr int kAdditions = 4'000'000;
  double least = 1e9;
  double most = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    volatile double sum = 0;
    for (int i = 0; i < kAdditions; ++i) sum = sum + i;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    least = std::min(least, seconds);
    most = std::max(most, seconds);
  }
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most / least;
}

/// Expects that every run names `expected`, on a machine whose ranks are even.
void expect_named(const std::vector<int>& expected, int slow_rank, double factor) {
  constexpr double kEven = 1.1;  // beyond it other programs slow ranks as much as a check may find
  std::string reasons;
  const double before = unevenness();
  const bool named = names(expected, slow_rank, factor, reasons);
  const double uneven = std::max(before, unevenness());
  if (!named && uneven > kEven)
    GTEST_SKIP() << "the same additions take up to " << uneven << " times as long on this machine";
  EXPECT_TRUE(named) << reasons;
}

TEST(NodeBench, NamesTheSlowRankEveryTime) {
  expect_named({1}, 1, 1.4);
}

TEST(NodeBench, NamesNoneOfQuietRanks) {
  expect_named({}, -1, 1);
}

}  // namespace
}  // namespace plumbline::node_bench_test
