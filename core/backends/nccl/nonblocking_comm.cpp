#include "core/backends/nccl/nonblocking_comm.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/backends/nccl/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kFinalizeSeconds = 30;
/// The watchdog, whose message names the member that is missing, comes first.
constexpr Seconds kAfterWatchdog{10};

/// NCCL connects an algorithm (ring, tree, …) at the first call that takes it, and that call returns only
/// when all members have reached it. Schedules in which ranks start calls of different communicators in
/// different orders would hang, so everything is connected when a communicator is made.
void connect_at_once() {
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

/// With NCCL_LAUNCH_ORDER_IMPLICIT a kernel waits until the previous one has started, whatever its
/// communicator. The second send of a channel starts when the first has been received, and would hold up the
/// receives that the sender is waiting for: DualPipeV always hangs. The variable is for devices on which the
/// kernels of several communicators do not fit together; here they do (block_budget.hpp).
void start_as_streams_allow() {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
}

}  // namespace

NonblockingComm::NonblockingComm(const ncclUniqueId& id, int ranks, int rank, std::string name, int max_ctas,
                                 Seconds timeout)
    : name_(std::move(name)), timeout_(timeout) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  connect_at_once();
  start_as_streams_allow();
  config.blocking = 0;
  config.commName = name_.c_str();
  if (max_ctas > 0) config.maxCTAs = max_ctas;
  std::unique_lock lock(mutex_);
  try {
    settle("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, ranks, id, rank, &config), timeout_,
           lock);
  } catch (...) {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    throw;
  }
}

NonblockingComm::~NonblockingComm() {
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr) return;
  for (const auto& [data, handle] : registered_) (void)ncclCommDeregister(comm_, handle);
  ncclResult_t state = ncclCommFinalize(comm_);
  const auto begin = std::chrono::steady_clock::now();
  while (state == ncclInProgress) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > kFinalizeSeconds) {
      break;
    }
    sched_yield();
    if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
  }
  if (state == ncclSuccess) {
    ncclCommDestroy(comm_);
  } else {
    ncclCommAbort(comm_);
  }
}

void NonblockingComm::settle(const char* call_name, ncclResult_t result, Seconds timeout,
                             std::unique_lock<std::mutex>& lock) {
  const auto begin = std::chrono::steady_clock::now();
  while (result == ncclInProgress) {
    // Let the watchdog in: it may want to abort.
    lock.unlock();
    sched_yield();
    lock.lock();
    if (comm_ == nullptr) throw Error(fmt::format("{} of {}: aborted", call_name, name_));
    check_nccl(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError", comm_);
    if (result != ncclInProgress) break;
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (waited > timeout.value) {
      throw Error(fmt::format("{} of {}: not accepted within {:.0f} s; is another member missing?", call_name,
                              name_, waited));
    }
  }
  if (result != ncclSuccess) {
    throw Error(fmt::format("{} of {}: {}", call_name, name_, nccl_words(result, comm_)));
  }
}

void NonblockingComm::run(const char* call_name, const std::function<ncclResult_t(ncclComm_t)>& call) {
  std::unique_lock lock(mutex_);
  if (comm_ == nullptr) throw Error(fmt::format("{} of {}: aborted", call_name, name_));
  settle(call_name, call(comm_), timeout_ + kAfterWatchdog, lock);
}

std::string NonblockingComm::register_memory(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return fmt::format("ncclCommRegister of {}: aborted", name_);
  void* handle = nullptr;
  const ncclResult_t result = ncclCommRegister(comm_, data, bytes, &handle);
  if (result != ncclSuccess) {
    return fmt::format("ncclCommRegister of {}: {}", name_, nccl_words(result, comm_));
  }
  // NCCL skips this where NCCL_LOCAL_REGISTER is 0 or messages are copied by the copy engines.
  if (handle == nullptr) return fmt::format("ncclCommRegister of {}: skipped by NCCL", name_);
  registered_[data] = handle;
  return "";
}

void NonblockingComm::deregister_memory(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = registered_.find(data);
  if (found == registered_.end()) return;
  if (comm_ != nullptr) (void)ncclCommDeregister(comm_, found->second);
  registered_.erase(found);
}

std::string NonblockingComm::asynchronous_error() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return "";
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return "";
  return fmt::format("{}: {}", name_, nccl_words(state, comm_));
}

void NonblockingComm::abort() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace plumbline
