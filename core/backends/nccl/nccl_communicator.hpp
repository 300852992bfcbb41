// The Communicator over NCCL: device memory between ranks, ordered with the compute stream by events.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/mpi/groups.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/nccl/block_budget.hpp"
#include "core/backends/nccl/channels.hpp"
#include "core/backends/nccl/device_events.hpp"
#include "core/backends/nccl/device_lanes.hpp"
#include "core/backends/nccl/nonblocking_comm.hpp"
#include "core/backends/nccl/stand_ins.hpp"
#include "core/backends/nccl/watchdog.hpp"
#include "core/run/communicator.hpp"
#include "core/run/ticket_slots.hpp"

namespace plumbline {

/// A stream for operators between two collectives that must not wait for the compute stream.
struct SideStream {
  cudaStream_t stream = nullptr;
  /// Calls its argument, whose operators go into `stream`. Empty: they go into the compute stream.
  std::function<void(const std::function<void()>&)> run{};
};

struct NcclOptions {
  cudaStream_t compute = nullptr;  // stream of the rank's operators
  SideStream side;
  MPI_Comm world = MPI_COMM_WORLD;  // ranks of the layout
  std::vector<Channel> channels;  // between pipeline ranks, as channels_of() gives them; the same everywhere
  bool direct_messages = false;   // also between ranks that have no channel
  int context_ring = 1;        // ranks of a sequence that send each other messages round a ring; 1: none do
  bool smaller_rings = false;  // as do halves of these, quarters and so on (dynamic_context_parallel)
  WatchdogOptions watchdog;
  std::function<std::string()> warnings{};  // of NCCL, in lines; said when the watchdog ends the process
  NcclBlocks blocks;
  int multiprocessors = 0;  // of the device; 0: not known, and the budget of blocks is not checked
  DeviceLanes* lanes =
      nullptr;  // gets collectives on the device and messages that come round a sequence's ring; null: none
};

/// "2.28.9" of the library that is loaded.
std::string nccl_version();
/// The same as a number, 22809.
int nccl_version_number();

/// One rank's end of all groups of a layout.
///
/// Every group with more than one member has one NCCL communicator. Groups of the same members share it,
/// except those of vocabulary parallelism and between instances, which keep orders of their own. Every pair
/// of pipeline ranks that exchanges messages has one per direction, as have neighbours in the ring of a
/// sequence. All are created and connected in the constructor, because lazily built ones hang correct
/// schedules (Megatron-LM pull request 5240).
///
/// A channel has a stream of its own, so a send without a receiver yet holds back no receive. A message whose
/// predecessor on its channel has not been waited for is held back (nccl_messages.cpp): behind it in a queue
/// of the device, which streams share (CUDA_DEVICE_MAX_CONNECTIONS), nothing could start. NCCL has no tags:
/// the n-th send of a channel meets its n-th receive, which channels_of() has checked. With direct_messages
/// those between other ranks go over the world's communicator. They leave together, as one group, at the next
/// wait: ranks that all wait for one of each neighbour's hold each other up no more. Calls that block
/// (all_reduce, …) go into the compute stream. Started calls go into the stream of their group, after the
/// work that the compute stream holds at that moment. wait() makes the compute stream wait; the host never
/// waits. Operators given to start_all_reduce_after() go into the side stream, behind the call before and
/// that work, and ahead of the all-reduce.
///
/// Host memory goes over MPI. It is accepted by all_reduce (the gradient norm), awaited all_gather and
/// awaited all_to_all of equal pieces (rows of experts), send and receive.
///
/// In a rehearsal (rehearse()) device memory goes nowhere, except for awaited collectives: results are
/// stand-ins. A kernel that is loaded at its first launch may make the host wait for all work on the device.
/// Such work must not wait for another rank that is behind this one. NCCL loads its own kernels when a
/// communicator is made.
///
/// now() is the host's clock: the device may be behind it.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over the options' world; the current device must be set. `control` and the compute stream
  /// must outlive it. Throws Error (NCCL, CUDA), InputError as MpiCommunicator does and when the device has
  /// too few multiprocessors for all communicators.
  NcclCommunicator(const Layout& layout, MpiCommunicator& control, const NcclOptions& options);
  /// Waits for operations in progress; aborts them during stack unwinding.
  ~NcclCommunicator() override;

  /// Waits until the compute stream has finished, then for the others, over MPI.
  void barrier(Group group) override;
  /// Times of the device, for vocabulary parallelism's groups; of the host in a rehearsal.
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void settle_times() override;
  void progress() override;
  Seconds now() const override { return control_.now(); }

  Watchdog& watchdog() { return *watchdog_; }
  /// To be called at the end of every action. The host may be a step ahead of the device. Once this reaches
  /// the action's end, the watchdog sees that computation continues although communication has been in
  /// progress for long.
  void action_asked_for();
  /// As NonblockingComm's, with every communicator: with all of them, or, where one refuses, with none.
  std::string register_memory(void* data, Bytes bytes);
  /// Waits for the device; aborts operations in progress during stack unwinding.
  void deregister_memory(void* data);
  int communicators() const { return static_cast<int>(lanes_.size()); }
  /// From now on no call that needs another rank is left waiting on the device, or again as always. The same
  /// on all ranks, when nothing is in progress.
  void rehearse(bool on);
  /// Multiprocessors that no waiting message holds; 0: not known.
  int multiprocessors_for_computation() const { return multiprocessors_; }
  /// Compute-stream time since the last call in blocking collectives over the tensor, context and expert
  /// groups, in waits for started ones of these groups, and in waits for messages of a sequence's ring. The
  /// compute stream must have finished.
  Seconds take_tensor_time();
  /// From now on these are timed, as at first, or not: the step's end has collectives of its own.
  void count_tensor_time(bool on) { counts_tensor_time_ = on; }

 private:
  /// A communicator with its stream, and its number for the watchdog.
  struct Lane {
    std::unique_ptr<NonblockingComm> comm;
    DeviceStream stream{StreamPriority::highest};  // a message must not queue behind a product's blocks
    std::shared_ptr<EndEvent> started;  // of the last one since an operation in the compute stream, or null
    std::vector<int> members;
    int number = 0;
    bool in_ring = false;  // a layer's attention waits for its messages
    Ticket newest;         // last message, until it has been waited for
  };
  struct Pending {
    std::shared_ptr<EndEvent> end;
    Ticket control;                // a message of host memory
    Lane* channel = nullptr;       // of a message
    bool in_layer = false;         // waiting for it counts as time of a layer's communication
    DeviceLanes* notes = nullptr;  // has its span; null: it has none
    std::size_t span = 0;
    TicketTimes* times = nullptr;  // of a watched call in a rehearsal
  };
  /// A message behind an earlier one of its channel.
  struct HeldMessage {
    Ticket ticket, predecessor;
    PointToPoint message;
    Lane* channel = nullptr;
  };
  /// Messages that have not left.
  struct Unsent {
    std::vector<HeldMessage> held;
    bool takes_direct = false;
    std::vector<std::pair<Ticket, PointToPoint>> direct;  // until the next wait
  };
  struct TimedCollective {
    DeviceEvent begin{cudaEventDefault};
    DeviceEvent end{cudaEventDefault};
  };
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  Ticket begin(const Collective& call) override;
  Ticket begin(const PointToPoint& message) override;
  /// The device keeps the order.
  Ticket begin(Follower follower) override;
  void finish(Ticket& ticket) override;
  void copy(const Collective& call) override;

  void post(const Ticket& ticket, const PointToPoint& message, Lane& channel);
  /// Posts the held messages that fulfil `leaves`, in their order.
  void release(const std::function<bool(const HeldMessage&)>& leaves);
  void release_sends();
  /// Posts all direct messages that have not left.
  void post_direct();
  /// The same in a rehearsal.
  Ticket rehearse(const Collective& call);
  Ticket rehearse(const PointToPoint& message);
  Ticket rehearse(Follower follower);
  void copy_on_device(void* to, const void* from, std::size_t bytes);

  Lane& add_lane(const ncclUniqueId& id, const std::string& name, const std::vector<int>& members,
                 int max_ctas);
  void make_groups(const MpiGroups& groups);
  /// One word from every rank to every other one.
  void connect_all();
  void make_channels(const MpiGroups& groups, const std::vector<Channel>& channels);
  /// Collective over `via`, in which `root` is the sending rank; from, to: world ranks. Null on others than
  /// those two.
  Lane* make_channel(MPI_Comm via, int root, int from, int to);
  /// Waits for the first operation of a lane. Throws Error after the watchdog's timeout, which does not watch
  /// yet.
  void await_first(Lane& lane, const char* name);
  /// Neighbours in the ring of the ranks that share a sequence. `smaller`: and what closes those of parts.
  void make_context_ring(const MpiGroups& groups, int ranks, bool smaller);
  /// Null for a group of one. Throws Error when this rank is not in the group.
  Lane* lane_of(Group group) const {
    (void)members(group);
    return group_lanes_[static_cast<std::size_t>(group)];
  }
  /// Puts `call` into a stream of the lane; its end is recorded and watched. `group`: whose lane it is noted
  /// on.
  Pending enqueue(Lane& lane, cudaStream_t stream, const char* name, const Call& call, LaneGroup group);
  /// After the earlier calls in the lane's own stream: operations of a communicator follow one another.
  void on_compute_stream(Group group, Lane& lane, const char* name, const Call& call);
  /// Runs `call`, and records the compute stream's time in its work.
  void timed(const std::function<void()>& call);
  /// Makes a call of MPI under the eyes of the watchdog.
  void on_host(Group group, const char* name, const std::function<void()>& call);
  /// Puts `call` into the lane's own stream, after the work that the compute stream holds now. `group`: whose
  /// lane it is noted on.
  Ticket begin_in_lane(Lane& lane, const char* name, const Call& call, LaneGroup group);
  /// Notes of calls over `group`; null: they are not noted.
  DeviceLanes* notes_of(LaneGroup group) {
    if (!group) return nullptr;
    return *group < Group::vocab_hidden ? noted_ : &watched_notes_;
  }
  /// Makes `later` wait for the work that `earlier` holds now.
  void order(cudaStream_t earlier, cudaStream_t later);
  Ticket open(Pending pending);
  void close(Ticket& ticket);
  std::string asynchronous_error();
  void abort();

  MpiCommunicator& control_;
  cudaStream_t compute_;
  Seconds timeout_;
  int device_ = 0;
  WaitBoard board_;
  EndEventPool ends_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::array<Lane*, kGroups> group_lanes_{};       // null for a group of one
  std::map<std::pair<int, int>, Lane*> channels_;  // by world ranks from, to
  NcclBlocks blocks_;
  int multiprocessors_;
  DeviceLanes* noted_;
  bool rehearses_ = false;
  std::unique_ptr<StandIns> stand_ins_;  // in a rehearsal
  bool counts_tensor_time_ = true;
  int computation_ = 0;  // the watchdog's number for this rank's computation
  SideStream side_;
  DeviceEvent between_;  // of two streams: work that the later one waits for
  TicketSlots<Pending> pending_;
  Unsent unsent_;
  std::vector<std::unique_ptr<TimedCollective>> timed_;
  std::size_t timed_in_use_ = 0;
  DeviceLanes watched_notes_;
  std::vector<std::pair<std::size_t, TicketTimes*>> watched_;  // spans there
  std::unique_ptr<Watchdog> watchdog_;                         // last: its thread uses the others
};

}  // namespace plumbline
