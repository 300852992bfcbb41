// A rehearsal of the NCCL communicator: calls that would wait on the device for another rank go over MPI.
#include <memory>
#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"

namespace plumbline {

void NcclCommunicator::while_device_works() {
  control_.progress();
  watchdog_->check();
}

Ticket NcclCommunicator::begin_on_host(const Collective& call) {
  Pending pending;
  pending.copies = std::make_shared<HostCopies>();
  pending.control = control_.start(pending.copies->of(call, compute_, [this] { while_device_works(); }));
  if (call.kind == CollectiveKind::reduce && call.root != rank()) pending.copies->leave_output();
  return open(std::move(pending));
}

Ticket NcclCommunicator::begin_on_host(const PointToPoint& message) {
  Pending pending;
  pending.copies = std::make_shared<HostCopies>();
  pending.control = control_.start(pending.copies->of(message, compute_, [this] { while_device_works(); }));
  return open(std::move(pending));
}

Ticket NcclCommunicator::begin_on_host(Follower follower) {
  Pending pending;
  pending.copies = std::make_shared<HostCopies>();
  // Before the caller's part, the result of `before` goes to the device; afterwards the reduced data comes
  // back.
  std::shared_ptr<HostCopies> earlier;
  Ticket before;
  if (follower.before) {
    earlier = pending_[follower.before].copies;
    before = std::exchange(pending_[follower.before].control, {});
    close(follower.before);
  }
  const Collective call = pending.copies->unread(follower.call);
  const auto prepare = [this, earlier, copies = pending.copies, own = std::move(follower.prepare)] {
    // Within MPI's progress, which must not be asked for again.
    if (earlier) earlier->deliver(compute_, {});
    if (own) own();
    copies->fill(compute_, {});
  };
  pending.control = control_.start_all_reduce_after(before, prepare, call.group, call.input, call.op);
  return open(std::move(pending));
}

}  // namespace plumbline
