// Device activity of a step as plain data: kernels, copies and their launches. Pure functions tie them to the
// schedule's actions; nothing here depends on the source of the records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

enum class ActivityKind : std::uint8_t { kernel, copy, set };

/// One thing the device did. Times are on the rank's own clock.
struct DeviceActivity {
  ActivityKind kind = ActivityKind::kernel;
  std::string name;  // of a kernel
  Seconds start;
  Seconds end;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;  // of the call that launched it
  Bytes bytes;                    // copied or set
};

/// The host's call that launched an activity.
struct LaunchCall {
  std::uint32_t correlation = 0;
  Seconds start;
  Seconds end;
};

/// The call with this correlation was made inside the range that the caller had numbered `external`.
struct ExternalLink {
  std::uint32_t correlation = 0;
  std::uint64_t external = 0;
};

/// Everything that was recorded during one step of one rank.
struct RecordedActivities {
  std::vector<DeviceActivity> activities;
  std::vector<LaunchCall> calls;
  std::vector<ExternalLink> links;
  std::int64_t dropped = 0;   // records that were lost: anything but 0 makes the step's figures worthless
  std::int64_t markers = 0;   // NVTX ranges that were seen
  Seconds profiler_overhead;  // of the profiler, by its own account
};

/// When the host was in an action, and the number it had given it.
struct ActionWindow {
  Action action;
  std::uint64_t external = 0;  // unique in the step
  Seconds host_start;
  Seconds host_end;
};

/// An action with the device's work for it.
struct ActionActivities {
  Action action;
  std::vector<DeviceActivity> activities;  // in order of start

  /// First start and last end; both 0 when the device had nothing to do.
  Seconds start() const;
  Seconds end() const;
  /// Time in which at least one activity ran.
  Seconds busy() const;
  Bytes copied() const;
};

struct AttributedActivities {
  std::vector<ActionActivities> actions;  // one per window, in its order
  std::vector<DeviceActivity> outside;    // of no action
};

/// Ties each activity to the action that launched it: by the number of the range its call was made in. A call
/// from another thread (NCCL launches from threads of its own) is matched by the window in which it was made.
/// Windows must be in order and not overlap.
AttributedActivities attribute(const RecordedActivities& recorded, const std::vector<ActionWindow>& windows);

}  // namespace plumbline
