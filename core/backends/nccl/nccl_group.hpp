// Calls that NCCL starts together.
#pragma once

#include <nccl.h>

namespace plumbline {

/// From construction to end(). A call that fails is the last one.
class NcclGroup {
 public:
  NcclGroup() : result_(ncclGroupStart()) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  template <class Call>
  void add(const Call& call) {
    if (!failed()) result_ = call();
  }
  /// Once.
  ncclResult_t end() {
    const ncclResult_t ended = ncclGroupEnd();
    return failed() ? result_ : ended;
  }

 private:
  // A non-blocking communicator may report of each call that it is in progress.
  bool failed() const { return result_ != ncclSuccess && result_ != ncclInProgress; }

  ncclResult_t result_;
};

}  // namespace plumbline
