// Communicators of the groups, of a pipeline's messages and of a context ring.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "core/backends/mpi/check.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Words on the device for the first operation of each communicator, which connects its members.
class DeviceWord {
 public:
  explicit DeviceWord(std::size_t words = 1) {
    check_cuda(cudaMalloc(&data_, words * sizeof(std::int32_t)), "cudaMalloc");
    check_cuda(cudaMemset(data_, 0, words * sizeof(std::int32_t)), "cudaMemset");
    // The lanes' streams do not wait for the default stream.
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~DeviceWord() { (void)cudaFree(data_); }
  DeviceWord(const DeviceWord&) = delete;
  DeviceWord& operator=(const DeviceWord&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// A fresh id, made by `root` of `via` and known to all its members. Collective.
ncclUniqueId shared_id(MPI_Comm via, int root) {
  ncclUniqueId id{};
  int mine = 0;
  check_mpi(MPI_Comm_rank(via, &mine), "MPI_Comm_rank");
  if (mine == root) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check_mpi(MPI_Bcast(&id, sizeof id, MPI_BYTE, root, via), "MPI_Bcast");
  return id;
}

}  // namespace

NcclCommunicator::Lane& NcclCommunicator::add_lane(const ncclUniqueId& id, const std::string& name,
                                                   const std::vector<int>& members, int max_ctas) {
  const auto place = std::find(members.begin(), members.end(), rank());
  auto lane = std::make_unique<Lane>();
  lane->members = members;
  lane->comm =
      std::make_unique<NonblockingComm>(id, static_cast<int>(members.size()),
                                        static_cast<int>(place - members.begin()), name, max_ctas, timeout_);
  lanes_.push_back(std::move(lane));
  return *lanes_.back();
}

void NcclCommunicator::make_groups(const MpiGroups& groups) {
  DeviceWord word;
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const MpiComm& comm = groups[static_cast<std::size_t>(i)];
    if (!comm) continue;
    const std::vector<int>& in = members(group);
    // Calls alongside computation, or started by the device after another collective, have orders of their
    // own.
    const bool keeps_order = group >= Group::vocab_hidden || group == Group::between_instances;
    // All members find the same group with the same members, or none does.
    const auto same =
        std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) { return lane->members == in; });
    if (same != lanes_.end() && !keeps_order) {
      group_lanes_[static_cast<std::size_t>(i)] = same->get();
      continue;
    }
    // Gradients are reduced under the last backward.
    const bool alongside = in == members(Group::data) || in == layout().members(Group::expert_data, rank()) ||
                           in == layout().members(Group::zero_param, rank()) ||
                           in == layout().members(Group::optimizer_instance, rank()) ||
                           group == Group::between_instances;
    Lane& lane = add_lane(shared_id(comm.get(), 0), fmt::format("the {} group", name_of(group)), in,
                          group >= Group::vocab_hidden ? blocks_.per_vocabulary
                          : alongside                  ? blocks_.per_started
                                                       : 0);
    group_lanes_[static_cast<std::size_t>(i)] = &lane;
    lane.comm->run("ncclAllReduce", [&](ncclComm_t connected) {
      return ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, connected, lane.stream.get());
    });
    await_first(lane, "ncclAllReduce");
  }
}

void NcclCommunicator::connect_all() {
  const int ranks = layout().world();
  const DeviceWord words(2 * static_cast<std::size_t>(ranks));
  auto* const sent = static_cast<std::int32_t*>(words.data());
  Lane& lane = *lane_of(Group::world);
  lane.comm->run("ncclSend and ncclRecv", [&](ncclComm_t comm) {
    const cudaStream_t stream = lane.stream.get();
    NcclGroup group;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank()) continue;
      group.add([&] { return ncclSend(sent + peer, 1, ncclInt32, peer, comm, stream); });
      group.add([&] { return ncclRecv(sent + ranks + peer, 1, ncclInt32, peer, comm, stream); });
    }
    return group.end();
  });
  await_first(lane, "ncclSend and ncclRecv");
}

void NcclCommunicator::make_channels(const MpiGroups& groups, const std::vector<Channel>& channels) {
  if (channels.empty() || layout().pipeline == 1) return;
  const MPI_Comm via = groups[static_cast<std::size_t>(Group::pipeline)].get();
  const std::vector<int>& pipeline = members(Group::pipeline);
  for (const Channel& channel : channels) {
    // The pipeline group is in ascending order of the pipeline coordinate.
    make_channel(via, channel.from, pipeline.at(static_cast<std::size_t>(channel.from)),
                 pipeline.at(static_cast<std::size_t>(channel.to)));
  }
}

void NcclCommunicator::make_context_ring(const MpiGroups& groups, int ranks, bool smaller) {
  if (ranks == 1) return;
  const MPI_Comm via = groups[static_cast<std::size_t>(Group::context)].get();
  const std::vector<int>& sharing = members(Group::context);
  const std::size_t apart = sharing.size() / static_cast<std::size_t>(ranks);
  for (std::size_t i = 0; i < sharing.size(); ++i) {
    Lane* lane = make_channel(via, static_cast<int>(i), sharing[i], sharing[(i + apart) % sharing.size()]);
    if (lane != nullptr) lane->in_ring = true;
  }
  for (std::size_t size = 2; smaller && size < sharing.size(); size *= 2) {
    for (std::size_t first = 0; first < sharing.size(); first += size) {
      const std::size_t last = first + size - 1;
      Lane* lane = make_channel(via, static_cast<int>(last), sharing[last], sharing[first]);
      if (lane != nullptr) lane->in_ring = true;
    }
  }
}

NcclCommunicator::Lane* NcclCommunicator::make_channel(MPI_Comm via, int root, int from, int to) {
  const ncclUniqueId id = shared_id(via, root);
  if (rank() != from && rank() != to) return nullptr;
  const DeviceWord word;
  Lane& lane = add_lane(id, fmt::format("messages from rank {} to rank {}", from, to), {from, to},
                        blocks_.per_message);
  channels_[{from, to}] = &lane;
  const bool sends = rank() == from;
  lane.comm->run(sends ? "ncclSend" : "ncclRecv", [&](ncclComm_t comm) {
    return sends ? ncclSend(word.data(), 1, ncclInt32, 1, comm, lane.stream.get())
                 : ncclRecv(word.data(), 1, ncclInt32, 0, comm, lane.stream.get());
  });
  await_first(lane, sends ? "ncclSend" : "ncclRecv");
  return &lane;
}

void NcclCommunicator::await_first(Lane& lane, const char* name) {
  const std::shared_ptr<EndEvent> end = ends_.take();
  end->record(lane.stream.get());
  const auto begin = std::chrono::steady_clock::now();
  while (!end->reached()) {
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::string error = lane.comm->asynchronous_error();
    if (error.empty() && waited > timeout_.value) {
      error = fmt::format(
          "{} of {}: the first one has not ended within {:.0f} s; is a member stuck, or a "
          "connection between their hosts?",
          name, lane.comm->name(), timeout_.value);
    }
    if (!error.empty()) {
      abort();  // or memory that the operation uses could not be freed
      throw Error(error);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace plumbline
