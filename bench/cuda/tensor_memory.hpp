// Memory of a rank's tensors on its device: CUDA's pool, or memory registered with NCCL.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/record/gpu_report.hpp"
#include "core/backends/nccl/registered_memory.hpp"
#include "core/tensor/segmented_memory.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

/// With nccl_ub segments of RegisteredMemory, where every rank's NCCL takes them; else device_memory().
/// Collective.
class TensorMemory {
 public:
  /// Operators and communicator must outlive the result of take().
  TensorMemory(Operators& operators, NcclCommunicator& communicator, bool nccl_ub);

  /// Once.
  std::unique_ptr<MemorySource> take() { return std::move(source_); }
  /// Reserved memory, while the source that take() returned exists.
  DevicePoolUse use() const;
  /// For the record, at any time: registration with NCCL, or the reason against it; nothing without nccl_ub.
  std::optional<ComputedBy> report() const;

 private:
  std::unique_ptr<MemorySource> source_;
  const MemorySource* pool_ = nullptr;               // device_memory()
  std::shared_ptr<const RegisteredUse> registered_;  // else
  bool wanted_;
  std::string why_not_;
};

}  // namespace plumbline
