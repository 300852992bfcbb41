// Construction, order with the compute stream, and failure of the NCCL communicator.
#include "core/backends/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Four bytes on the device for the first operation of each communicator, which connects its members.
class DeviceWord {
 public:
  DeviceWord() {
    check_cuda(cudaMalloc(&data_, sizeof(std::int32_t)), "cudaMalloc");
    check_cuda(cudaMemset(data_, 0, sizeof(std::int32_t)), "cudaMemset");
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

[[noreturn]] void end_process(const std::string& failure) {
  fmt::print(stderr, "{}\n", failure);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(ExitCode::rank_failed));
}

}  // namespace

int nccl_version_number() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

std::string nccl_version() {
  const int version = nccl_version_number();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::NcclCommunicator(const Layout& layout, MpiCommunicator& control, const NcclOptions& options)
    : Communicator(layout, started_rank(layout)),
      control_(control),
      compute_(options.compute),
      timeout_(options.watchdog.timeout),
      board_(MPI_COMM_WORLD),
      blocks_(options.blocks),
      multiprocessors_(options.multiprocessors),
      noted_(options.lanes),
      side_(options.side) {
  check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  const MpiGroups groups = split_groups(layout, rank());
  make_groups(groups);
  make_channels(groups, options.channels);
  make_context_ring(groups, options.context_ring, options.smaller_rings);
  if (multiprocessors_ > 0) {
    multiprocessors_ =
        plumbline::multiprocessors_for_computation(lanes_by_kind(), blocks_, options.multiprocessors);
  }
  WatchedTransport transport;
  transport.ended = [](const std::shared_ptr<void>& token) {
    return std::static_pointer_cast<EndEvent>(token)->reached();
  };
  transport.asynchronous_error = [this] { return asynchronous_error(); };
  transport.abort = [this] { abort(); };
  transport.give_up = end_process;
  // A new thread is on device 0, and its first call there would make a context of hundreds of megabytes.
  transport.begins = [this] { (void)cudaSetDevice(device_); };
  watchdog_ = std::make_unique<Watchdog>(rank(), board_, std::move(transport), options.watchdog);
  for (const auto& lane : lanes_) lane->number = watchdog_->add_lane(lane->comm->name(), lane->members);
  computation_ = watchdog_->add_lane(fmt::format("rank {}", rank()), {rank()});
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0) abort();
}

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
                          group >= Group::vocab_hidden ? blocks_.per_message
                          : alongside                  ? blocks_.per_started
                                                       : 0);
    group_lanes_[static_cast<std::size_t>(i)] = &lane;
    lane.comm->run("ncclAllReduce", [&](ncclComm_t connected) {
      return ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, connected, lane.stream.get());
    });
    check_cuda(cudaStreamSynchronize(lane.stream.get()), "cudaStreamSynchronize");
  }
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
  check_cuda(cudaStreamSynchronize(lane.stream.get()), "cudaStreamSynchronize");
  return &lane;
}

NcclLanes NcclCommunicator::lanes_by_kind() const {
  NcclLanes lanes;
  lanes.messages = static_cast<int>(channels_.size());
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const Lane* lane = group_lanes_[static_cast<std::size_t>(i)];
    if (lane == nullptr) continue;
    if (group >= Group::vocab_hidden) {
      ++lanes.vocabulary;
    } else if (group == Group::data || group == Group::zero_param || group == Group::optimizer_instance ||
               group == Group::between_instances ||
               (group == Group::expert_data && lane != lane_of(Group::data))) {
      ++lanes.started;
    } else {
      lanes.awaited = true;
    }
  }
  return lanes;
}

NcclCommunicator::Pending NcclCommunicator::enqueue(Lane& lane, cudaStream_t stream, const char* name,
                                                    const Call& call, LaneGroup group) {
  watchdog_->check();
  Pending pending;
  pending.end = ends_.take();
  pending.notes = notes_of(group);
  watchdog_->started(lane.number, name, pending.end);
  if (pending.notes != nullptr) pending.span = pending.notes->begin(group, stream, stream == compute_);
  try {
    lane.comm->run(name, [&](ncclComm_t comm) { return call(comm, stream); });
  } catch (const Error&) {
    watchdog_->check();  // its message has more detail
    throw;
  }
  if (pending.notes != nullptr) pending.notes->end(pending.span, stream);
  pending.end->record(stream);  // last: once it is reached, so are the others
  return pending;
}

void NcclCommunicator::action_asked_for() {
  std::shared_ptr<EndEvent> end = ends_.take();
  watchdog_->started(computation_, "computation", end);
  end->record(compute_);
}

void NcclCommunicator::order(cudaStream_t earlier, cudaStream_t later) {
  check_cuda(cudaEventRecord(between_.get(), earlier), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(later, between_.get(), 0), "cudaStreamWaitEvent");
}

Ticket NcclCommunicator::begin_in_lane(Lane& lane, const char* name, const Call& call, LaneGroup group) {
  order(compute_, lane.stream.get());
  return open(enqueue(lane, lane.stream.get(), name, call, group));
}

Ticket NcclCommunicator::open(Pending pending) {
  const Ticket ticket = pending_.open();
  pending_[ticket] = std::move(pending);
  return ticket;
}

void NcclCommunicator::finish(Ticket& ticket) {
  Pending& slot = pending_[ticket];
  if (slot.end) {
    const auto wait = [&] {
      if (slot.notes != nullptr) slot.notes->begin_wait(slot.span, compute_);
      check_cuda(cudaStreamWaitEvent(compute_, slot.end->event.get(), 0), "cudaStreamWaitEvent");
      if (slot.notes != nullptr) slot.notes->end_wait(slot.span, compute_);
    };
    if (slot.in_layer) {
      timed(wait);
    } else {
      wait();
    }
  }
  control_.wait(slot.control);
  if (slot.copies) {
    slot.copies->deliver(compute_, [this] { while_device_works(); });
    if (slot.times != nullptr) slot.times->end = now();
  }
  close(ticket);
}

void NcclCommunicator::watch(const Ticket& ticket, TicketTimes& times) {
  if (!ticket) return;
  times = {now(), {}};
  Pending& slot = pending_[ticket];
  if (slot.notes == &watched_notes_) {
    watched_.emplace_back(slot.span, &times);
  } else {
    slot.times = &times;  // calls over MPI end in finish()
  }
}

void NcclCommunicator::settle_times() {
  if (watched_.empty()) return;
  const DeviceEvent reached(cudaEventDefault);
  // The device passes the event somewhere between the two looks at the clock.
  const Seconds before = now();
  check_cuda(cudaEventRecord(reached.get(), compute_), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(reached.get()), "cudaEventSynchronize");
  const Seconds time = (before + now()) / 2.0;
  for (const auto& [span, times] : watched_) *times = watched_notes_.times_of(span, reached, time);
  watched_.clear();
  watched_notes_.clear();
}

void NcclCommunicator::close(Ticket& ticket) {
  pending_[ticket] = {};
  pending_.close(ticket);
}

void NcclCommunicator::progress() {
  if (rehearses_) control_.progress();
  watchdog_->check();
}

std::string NcclCommunicator::register_memory(void* data, Bytes bytes) {
  for (const auto& lane : lanes_) {
    std::string refused = lane->comm->register_memory(data, static_cast<std::size_t>(bytes.value));
    if (refused.empty()) continue;
    for (const auto& with : lanes_) with->comm->deregister_memory(data);
    return refused;
  }
  return "";
}

void NcclCommunicator::deregister_memory(void* data) {
  if (std::uncaught_exceptions() > 0) abort();  // the device may wait for ranks that wait for this one
  (void)cudaDeviceSynchronize();
  for (const auto& lane : lanes_) lane->comm->deregister_memory(data);
}

std::string NcclCommunicator::asynchronous_error() {
  for (const auto& lane : lanes_) {
    std::string error = lane->comm->asynchronous_error();
    if (!error.empty()) return error;
  }
  return "";
}

void NcclCommunicator::abort() {
  // Together: aborting one waits for its kernels on the device, which may wait for those of another one.
  (void)ncclGroupStart();
  for (const auto& lane : lanes_) lane->comm->abort();
  (void)ncclGroupEnd();
}

}  // namespace plumbline
