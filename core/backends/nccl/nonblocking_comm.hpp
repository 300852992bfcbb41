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
  /// leaves it to NCCL. Sets NCCL_RUNTIME_CONNECT to 0 unless the environment sets it: connections are made
  /// now, not by the first call. Always sets NCCL_LAUNCH_ORDER_IMPLICIT to 0: with it, a send that waits
  /// behind another would hold up all later calls. Throws Error when NCCL refuses or `timeout` passes.
  NonblockingComm(const ncclUniqueId& id, int ranks, int rank, std::string name, int max_ctas,
                  Seconds timeout);
  /// Waits for operations in progress, deregisters memory and frees the communicator; aborts it during stack
  /// unwinding.
  ~NonblockingComm();
  NonblockingComm(const NonblockingComm&) = delete;
  NonblockingComm& operator=(const NonblockingComm&) = delete;

  /// Makes an NCCL call and polls until NCCL has put its work into the stream. Throws Error when NCCL
  /// refuses, the communicator has been aborted, or ten seconds more than the timeout pass.
  void run(const char* call_name, const std::function<ncclResult_t(ncclComm_t)>& call);

  /// Lets NCCL reach memory of ncclMemAlloc without a copy (ncclCommRegister). Returns "", or why NCCL does
  /// not. All members must do the same: NCCL does not define calls in which only some buffers are registered.
  std::string register_memory(void* data, std::size_t bytes);
  /// Before the memory goes; nothing in progress uses it. Nothing happens if it is not registered.
  void deregister_memory(void* data);

  /// Error in the background, or "". Any thread.
  std::string asynchronous_error();
  /// Ends all operations in progress, on the device too. Any thread; further calls do nothing.
  void abort();

  const std::string& name() const { return name_; }

 private:
  /// Polls until nothing is in progress.
  void settle(const char* call_name, ncclResult_t result, Seconds timeout,
              std::unique_lock<std::mutex>& lock);

  const std::string name_;
  const Seconds timeout_;
  ncclComm_t comm_ = nullptr;          // null once aborted
  std::map<void*, void*> registered_;  // memory, NCCL's handle
  std::mutex mutex_;                   // NCCL's polling call finishes work: one thread at a time
};

}  // namespace plumbline
