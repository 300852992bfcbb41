// GPU memory of every rank's process: its tensors and the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// One rank. Unknown and unpredicted figures are empty.
struct DeviceMemoryRow {
  int rank = 0;                      // world rank
  Bytes allocated;                   // its tensors at their peak
  std::optional<Bytes> reserved;     // peak of the tensors' pool; measured only
  std::optional<Bytes> context;      // an empty CUDA context
  Bytes libraries;                   // cuBLASLt's handle and workspace, the operators' scratch
  Bytes nccl;                        // communicators, connected
  Bytes other;                       // kernels, loaded at their first launch, and later memory outside of the
                                     // pools
  std::optional<Bytes> margin;       // what the allocator is assumed to reserve besides; predicted only
  Bytes total;                       // reserved (else allocated) and the rest of the above
  std::optional<Bytes> device_used;  // of the device by all processes after the last step; measured only
  int ranks_on_device = 1;
  int ranks_alike = 1;  // world ranks from `rank` on that this row stands for

  /// Memory that a device must have.
  Bytes needed() const { return total + margin.value_or(Bytes{}); }
  /// Definition of `total`.
  Bytes sum() const;
};

struct DeviceMemoryReport {
  std::string source;  // where the figures come from, for people
  Bytes device;        // memory of one device
  std::vector<DeviceMemoryRow> ranks;

  /// The first row that needs most; nullptr without rows.
  const DeviceMemoryRow* fullest() const;
  /// The row of a world rank; nullptr without one.
  const DeviceMemoryRow* row_of(int rank) const;
};

}  // namespace plumbline
