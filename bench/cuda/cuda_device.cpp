#include "bench/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/measure/machine/near_device.hpp"
#include "bench/processes/hosts/host_list.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/handle.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// The devices of the host's ranks by their place on the bus: numbers depend on the devices visible to a
/// rank.
std::vector<std::string> devices_of(MPI_Comm host, int ranks, int device) {
  using Name = std::array<char, 32>;
  Name own{};
  check_cuda(cudaDeviceGetPCIBusId(own.data(), static_cast<int>(own.size()), device),
             "cudaDeviceGetPCIBusId");
  std::vector<Name> all(static_cast<std::size_t>(ranks));
  check_mpi(MPI_Allgather(own.data(), sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, host),
            "MPI_Allgather");
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Name& name : all) names.emplace_back(name.data());
  return names;
}

}  // namespace

std::string bus_of(int device) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) == cudaSuccess)
    return bus.data();
  static_cast<void>(cudaGetLastError());
  return "";
}

DevicePlace::DevicePlace(int world_rank) {
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host_.out()),
            "MPI_Comm_split_type");
  int local_rank = 0;
  int local_ranks = 1;
  check_mpi(MPI_Comm_rank(host_.get(), &local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host_.get(), &local_ranks), "MPI_Comm_size");
  check_mpi(MPI_Allreduce(&world_rank, &host_rank_, 1, MPI_INT, MPI_MIN, host_.get()), "MPI_Allreduce");
  const int devices = cuda_devices();
  if (devices == 0) {
    throw InputError(
        "backend: found cuda without a usable GPU on this host, expected one; use cpu or emulated");
  }
  device_ = local_rank % devices;
  static_cast<void>(MachineTopology().stay_near(bus_of(device_)));
  const std::vector<std::string> used = devices_of(host_.get(), local_ranks, device_);
  sharing_ = sharing_of(used, local_rank);
  if (world_rank == 0) say(note_of_hidden_devices(used, devices));
  if (sharing_.turns > 1) {
    int world = 1;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
    require_own_devices(this_host(), local_ranks, distinct_devices(used), world);
  }
  if (sharing_.turns == 1) return;  // all ranks of the host need the same settings
  require_sharing(sharing_.turns, nccl_version_number());
  for (const auto& [name, value] : shared_gpu_settings(world_rank, nccl_version_number())) {
    ::setenv(name.c_str(), value.c_str(), name == "NCCL_HOSTID" ? 1 : 0);
  }
  if (world_rank == 0) fmt::print(stderr, "note: ranks share a GPU: times say nothing about its speed\n");
}

void DevicePlace::meet() const {
  check_mpi(MPI_Barrier(host_.get()), "MPI_Barrier");
}

void DevicePlace::in_turn(const std::function<void()>& work) const {
  for (int turn = 0; turn < sharing_.turns; ++turn) {
    if (turn == sharing_.turn) work();
    meet();
  }
}

int take_device(int world_rank) {
  const DevicePlace place(world_rank);
  check_cuda(cudaSetDevice(place.device()), "cudaSetDevice");
  return place.device();
}

}  // namespace plumbline
