// One NCCL communicator whose calls never block the caller for good: they are polled, and can be aborted from
// another thread.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "core/base/units.hpp"

namespace plumbline {

class NonblockingComm {
 public:
  /// Collective over the `ranks` processes that were given `id`; this one is number `rank` of them. `name`
  /// appears in errors, in NCCL's log and in traces. `max_ctas` bounds the thread blocks of an operation; 0
  /// leaves it to NCCL. Sets NCCL_RUNTIME_CONNECT to 0 where the environment says nothing: connections are
  /// made now, not by the first call. Sets NCCL_LAUNCH_ORDER_IMPLICIT to 0 whatever the environment says: with it, a send that
  /// waits behind another would hold up all later calls. Throws Error when NCCL refuses or `timeout` passes.
  NonblockingComm(const ncclUniqueId& id, int ranks, int rank, std::string name, int max_ctas,
                  Seconds timeout);
  /// Waits for what is in progress, forgets registered memory and frees the communicator; aborts it when an exception is on its way.
  ~NonblockingComm();
  NonblockingComm(const NonblockingComm&) = delete;
  NonblockingComm& operator=(const NonblockingComm&) = delete;

  /// Makes an NCCL call and polls until NCCL has put its work into the stream. Throws Error when NCCL
  /// refuses, the communicator has been aborted, or the timeout passes.
  void run(const char* call_name, const std::function<ncclResult_t(ncclComm_t)>& call);

  /// Lets NCCL reach memory of ncclMemAlloc without a copy (ncclCommRegister). Returns "", or why NCCL does not. All members
  /// do likewise, or none: what becomes of a call in which only some buffers are registered is not said.
  std::string register_memory(void* data, std::size_t bytes);
  /// Before the memory goes; nothing in progress uses it. Nothing happens where it is not registered.
  void deregister_memory(void* data);

  /// What has gone wrong in the background, or "". Any thread.
  std::string asynchronous_error();
  /// Ends whatever is in progress, on the device too. Any thread; further calls do nothing.
  void abort();

  const std::string& name() const { return name_; }

 private:
  /// Polls until nothing is in progress.
  void settle(const char* call_name, ncclResult_t result, std::unique_lock<std::mutex>& lock);

  const std::string name_;
  const Seconds timeout_;
  ncclComm_t comm_ = nullptr;          // null once aborted
  std::map<void*, void*> registered_;  // memory, NCCL's handle
  std::mutex mutex_;                   // NCCL's polling call finishes work: one thread at a time
};

}  // namespace plumbline
