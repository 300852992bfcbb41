#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {

/// Runs `make` on rank 0 of the world while the others sleep: ranks that wait for a message share processors
/// with the one that computes, and each rank's own reference would cost as much as all splits. Collective.
template <typename Make>
void on_first_rank(const Make& make) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) make();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A step that rank 0 makes alone. All ranks have its loss and its gradient norm, rank 0 everything.
/// Collective.
template <typename Make>
StepResult step_of_first_rank(const Make& make) {
  StepResult result;
  on_first_rank([&] { result = make(); });
  MPI_Bcast(&result.loss, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(&result.gradient_norm, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result;
}

/// Losses that rank 0 computes alone, on all ranks. Collective.
template <typename Make>
std::vector<double> losses_of_first_rank(const Make& make) {
  std::vector<double> losses;
  on_first_rank([&] { losses = make(); });
  auto count = static_cast<int>(losses.size());
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  losses.resize(static_cast<std::size_t>(count));
  MPI_Bcast(losses.data(), count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return losses;
}

}  // namespace plumbline::training
