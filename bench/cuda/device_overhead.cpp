// Device memory that a CUDA process uses besides tensors, measured part by part on two ranks.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/device_memory_watch.hpp"
#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/backends/nccl/device_events.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nonblocking_comm.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr Seconds kTimeout{60};
constexpr int kMessageBlocks = NcclBlocks{}.per_message;

/// One product of each layout and type that a training step has, and every other operator, once: loads their
/// kernels, and takes cuBLASLt's workspace.
void run_everything_once(Operators& operators, MemorySource& memory) {
  for (const DType type : {DType::bf16, DType::fp32}) {
    for (const auto& [a_transposed, b_transposed] : {std::pair(false, true), {false, false}, {true, false}}) {
      ProductShape shape{256, 256, 256, type, a_transposed ? DType::fp32 : type};
      shape.a_transposed = a_transposed;
      shape.b_transposed = b_transposed;
      shape.accumulate = a_transposed;
      DeviceOperands operands(operators, memory);
      operators.gemm(operands.product(shape));
      operators.synchronize();
    }
    OperatorShape shape;
    shape.type = type;
    for (const OperatorCase& operation : operator_cases(operators, shape, &memory)) operation.run();
    operators.synchronize();
  }
}

/// A communicator of all ranks, used once as training uses it.
std::unique_ptr<NonblockingComm> connect(int rank, int ranks, int max_ctas, void* word, cudaStream_t stream) {
  ncclUniqueId id{};
  if (rank == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check_mpi(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  auto comm = std::make_unique<NonblockingComm>(id, ranks, rank, "calibration", max_ctas, kTimeout);
  comm->run("NCCL", [&](ncclComm_t c) {
    if (max_ctas == 0) return ncclAllReduce(word, word, 1, ncclInt32, ncclSum, c, stream);
    if (rank == 0) return ncclSend(word, 1, ncclInt32, 1, c, stream);
    return rank == 1 ? ncclRecv(word, 1, ncclInt32, 0, c, stream) : ncclSuccess;
  });
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return comm;
}

}  // namespace

DeviceOverhead measure_device_overhead(int rank) {
  int ranks = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  if (ranks < 2) throw Error("calibrate: the device's memory is measured with two ranks");
  const DevicePlace place(rank);
  DeviceMemoryWatch watch(place);
  const auto operators = watch.open();
  const auto memory = device_memory(*operators);
  watch.tensors([&] { return device_pool_use(*memory); });
  const auto outside_pools = [&] {
    const DeviceReading reading = watch.read();
    return reading.used - reading.pools();
  };
  const auto growth = [](Bytes from, Bytes to) { return std::max(to - from, Bytes{}); };

  DeviceOverhead overhead;
  overhead.measured = true;
  overhead.device = watch.readings().device;
  place.in_turn([&] {
    const Bytes before = outside_pools();
    run_everything_once(*operators, *memory);
    overhead.kernels = growth(before, outside_pools());
  });
  const DeviceReadings& opened = watch.readings();
  if (opened.before.value < 0) {
    throw Error(
        "calibrate: the context's size cannot be measured, for libnvidia-ml.so.1 is missing or reports "
        "another device; expected NVML with the driver");
  }
  overhead.context = growth(opened.before, opened.context.used);
  overhead.libraries = growth(opened.context.used, opened.operators.used - opened.operators.pools()) +
                       library_pool_use(place.device()).most_reserved;

  // All ranks of the device at once: an even share each.
  const DeviceStream stream;
  void* const word = memory->allocate({4});
  std::vector<std::unique_ptr<NonblockingComm>> comms;
  std::vector<Bytes> seen = {outside_pools()};
  for (const int ctas : {0, 0, kMessageBlocks}) {
    place.meet();
    comms.push_back(connect(rank, ranks, ctas, word, stream.get()));
    place.meet();
    seen.push_back(outside_pools());
  }
  place.meet();
  const int sharing = place.shared() ? ranks : 1;
  const auto share = [&](std::size_t i) { return growth(seen[i], seen[i + 1]) / sharing; };
  overhead.nccl_group = share(1);
  overhead.nccl_first = growth(share(1), share(0));
  overhead.nccl_channel = share(2);
  memory->release(word, {4});
  return overhead;
}

}  // namespace plumbline
