#include "bench/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/handle.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/error.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

DeviceChoice take_device(int world_rank) {
  MpiComm host;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host.out()),
            "MPI_Comm_split_type");
  int local_rank = 0;
  int local_ranks = 1;
  check_mpi(MPI_Comm_rank(host.get(), &local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host.get(), &local_ranks), "MPI_Comm_size");
  const int devices = cuda_devices();
  if (devices == 0) {
    throw InputError("backend: found cuda, but there is no usable GPU on this host; use cpu or emulated");
  }
  const DeviceChoice choice = choose_device(local_rank, local_ranks, devices);
  check_cuda(cudaSetDevice(choice.device), "cudaSetDevice");
  if (choice.shared) {
    for (const auto& [name, value] : shared_gpu_settings(world_rank, nccl_version_number())) {
      ::setenv(name.c_str(), value.c_str(), name == "NCCL_HOSTID" ? 1 : 0);
    }
    if (world_rank == 0) fmt::print(stderr, "note: ranks share a GPU: times say nothing about its speed\n");
  }
  return choice;
}

}  // namespace plumbline
