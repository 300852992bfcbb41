// Construction, order with the compute stream, and failure of the NCCL communicator.
#include "core/backends/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

[[noreturn]] void end_process(const std::string& failure, const std::function<std::string()>& warnings) {
  fmt::print(stderr, "{}\n", failure);
  if (warnings) fmt::print(stderr, "{}", warnings());
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
    : Communicator(layout, started_rank(layout, options.world)),
      control_(control),
      compute_(options.compute),
      timeout_(options.watchdog.timeout),
      board_(options.world),
      blocks_(options.blocks),
      multiprocessors_(options.multiprocessors),
      noted_(options.lanes),
      side_(options.side) {
  unsent_.takes_direct = options.direct_messages;
  check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  const MpiGroups groups = split_groups(layout, rank(), options.world);
  make_groups(groups);
  if (unsent_.takes_direct && layout.world() > 1) connect_all();
  make_channels(groups, options.channels);
  make_context_ring(groups, options.context_ring, options.smaller_rings);
  if (multiprocessors_ > 0) {
    multiprocessors_ = plumbline::multiprocessors_for_computation(
        lanes_of(layout, rank(), static_cast<int>(channels_.size())), blocks_, options.multiprocessors);
  }
  WatchedTransport transport;
  transport.ended = [](const std::shared_ptr<void>& token) {
    return std::static_pointer_cast<EndEvent>(token)->reached();
  };
  transport.asynchronous_error = [this] { return asynchronous_error(); };
  transport.abort = [this] { abort(); };
  transport.give_up = [warnings = options.warnings](const std::string& failure) {
    end_process(failure, warnings);
  };
  // A new thread is on device 0, and its first call there would make a context of hundreds of megabytes.
  transport.begins = [this] { (void)cudaSetDevice(device_); };
  watchdog_ = std::make_unique<Watchdog>(rank(), board_, std::move(transport), options.watchdog);
  for (const auto& lane : lanes_) lane->number = watchdog_->add_lane(lane->comm->name(), lane->members);
  computation_ = watchdog_->add_lane(fmt::format("rank {}", rank()), {rank()});
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0) abort();
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
  post_direct();
  release([&](const HeldMessage& held) {
    return held.message.kind == PointToPoint::Kind::send || held.ticket.id == ticket.id;
  });
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
  if (slot.times != nullptr) slot.times->end = now();
  if (slot.channel != nullptr) {
    if (slot.channel->newest.id == ticket.id) slot.channel->newest = {};
    release([&](const HeldMessage& held) { return held.predecessor.id == ticket.id; });
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
    slot.times = &times;
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
