// Bare MPI, for comparison with `plumbline bench`: KIND MIN MAX FACTOR; prints bytes and µs, mean over calls.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  int level = 0;  // as a step has it: Open MPI locks where there may be other threads
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool reduces = argc > 1 && std::string(argv[1]) == "all-reduce";
  const long least = argc > 2 ? std::atol(argv[2]) : 8, most = argc > 3 ? std::atol(argv[3]) : 1 << 24;
  const long factor = argc > 4 ? std::max(std::atol(argv[4]), 2L) : 4;
  std::vector<float> in(static_cast<std::size_t>(most) / 4), out(in.size());
  for (long bytes = least; bytes <= most; bytes *= factor) {
    const int count = static_cast<int>(bytes / 4);
    const int calls = std::clamp(static_cast<int>(200'000'000 / (bytes + 20'000)), 5, 5000);
    double start = 0;
    for (int i = -std::max(calls / 10, 1); i < calls; ++i) {
      if (i == 0) MPI_Barrier(MPI_COMM_WORLD), start = MPI_Wtime();
      if (reduces) {
        MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else {
        MPI_Alltoall(in.data(), count / ranks, MPI_FLOAT, out.data(), count / ranks, MPI_FLOAT,
                     MPI_COMM_WORLD);
      }
    }
    double time = (MPI_Wtime() - start) / calls / ranks;
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("%ld %.4f\n", bytes, time * 1e6);
  }
  MPI_Finalize();
}
