// The main of tests that run under mpirun: every rank runs every test; a failure on any rank fails the run,
// and only rank 0 prints passed tests.
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>

namespace {

/// Output of other ranks: failures only, with the rank.
class Failures : public ::testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}
  void OnTestStart(const ::testing::TestInfo& test) override { test_ = &test; }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override { test_ = nullptr; }
  // Called with googletest's lock held, which asking it for the current test would wait for.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const ::testing::TestInfo* test = test_;
    std::fprintf(stderr, "rank %d, %s.%s: %s:%d: %s\n", rank_, test == nullptr ? "" : test->test_suite_name(),
                 test == nullptr ? "" : test->name(), result.file_name() == nullptr ? "" : result.file_name(),
                 result.line_number(), result.message());
  }

 private:
  int rank_;
  const ::testing::TestInfo* test_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures(rank));  // gtest owns it
  }
  const int failed = RUN_ALL_TESTS();
  int any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any_failed;
}
