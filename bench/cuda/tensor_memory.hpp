// Where a rank's tensors lie on its device: in CUDA's pool, or in memory that NCCL knows.
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

/// With nccl_ub segments of RegisteredMemory, where every rank's NCCL takes them; else device_memory(). Collective.
class TensorMemory {
 public:
  /// Operators and communicator must outlive what take() gives.
  TensorMemory(Operators& operators, NcclCommunicator& communicator, bool nccl_ub);

  /// Once.
  std::unique_ptr<MemorySource> take() { return std::move(source_); }
  /// What is reserved for it, as long as what was taken is there.
  DevicePoolUse use() const;
  /// For the record, at any time: whether NCCL knows the memory, or why it does not; nothing without nccl_ub.
  std::optional<ComputedBy> report() const;

 private:
  std::unique_ptr<MemorySource> source_;
  const MemorySource* pool_ = nullptr;               // device_memory()
  std::shared_ptr<const RegisteredUse> registered_;  // else
  bool wanted_;
  std::string why_not_;
};

}  // namespace plumbline
