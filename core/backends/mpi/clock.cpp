// Clock reading and offset measurement.
#include "core/backends/mpi/clock.hpp"

#include <limits>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/handle.hpp"

namespace plumbline {
namespace {

constexpr int kRoundTrips = 100;
constexpr int kTag = 1;

}  // namespace

ClockOffset common_clock(MPI_Comm world) {
  MpiComm host;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host.out()),
            "MPI_Comm_split_type");
  int ranks = 0;
  int local = 0;
  check_mpi(MPI_Comm_size(world, &ranks), "MPI_Comm_size");
  check_mpi(MPI_Comm_size(host.get(), &local), "MPI_Comm_size");
  // All ranks agree: one host holds everybody, or none does.
  return local == ranks ? ClockOffset{} : measure_clock_offset(world);
}

ClockOffset measure_clock_offset(MPI_Comm world) {
  int rank = 0;
  int ranks = 0;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &ranks), "MPI_Comm_size");
  double offset = 0;
  double error = 0;
  for (int other = 1; other < ranks; ++other) {
    if (rank == 0) {
      for (int i = 0; i < kRoundTrips; ++i) {
        check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, other, kTag, world, MPI_STATUS_IGNORE), "MPI_Recv");
        const double now = monotonic_now().value;
        check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, other, kTag, world), "MPI_Send");
      }
    } else if (rank == other) {
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < kRoundTrips; ++i) {
        double theirs = 0;
        const double before = monotonic_now().value;
        check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 0, kTag, world), "MPI_Send");
        check_mpi(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, kTag, world, MPI_STATUS_IGNORE), "MPI_Recv");
        const double after = monotonic_now().value;
        if (after - before >= best) continue;
        best = after - before;
        offset = theirs - (before + after) / 2;
        error = best / 2;
      }
    }
  }
  double worst = 0;
  check_mpi(MPI_Allreduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, world), "MPI_Allreduce");
  return {{offset}, {worst}};
}

}  // namespace plumbline
