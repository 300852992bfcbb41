#include "bench/cuda/tensor_memory.hpp"

#include <utility>

namespace plumbline {

TensorMemory::TensorMemory(Operators& operators, NcclCommunicator& communicator, bool nccl_ub)
    : wanted_(nccl_ub) {
  if (wanted_) {
    if (auto registered = RegisteredMemory::make(communicator, why_not_)) {
      registered_ = registered->shared_use();
      source_ = std::make_unique<SegmentedMemory>(std::move(registered));
      return;
    }
  }
  source_ = device_memory(operators);
  pool_ = source_.get();
}

DevicePoolUse TensorMemory::use() const {
  return registered_ ? DevicePoolUse{registered_->now, registered_->most} : device_pool_use(*pool_);
}

std::optional<ComputedBy> TensorMemory::report() const {
  if (!wanted_) return std::nullopt;
  constexpr const char* kCall = "buffers of messages and collectives";
  if (!registered_) return ComputedBy{kCall, "not registered", why_not_};
  return ComputedBy{kCall, to_string(*registered_), ""};
}

}  // namespace plumbline
