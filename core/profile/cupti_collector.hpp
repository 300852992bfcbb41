// Kernels, copies and calls of one rank, recorded by CUPTI and tied to the schedule's actions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/profile/activity.hpp"
#include "core/run/step_observer.hpp"

namespace plumbline {

/// Version of the CUPTI library that is loaded, such as 130001.
std::uint32_t cupti_version();

/// Records the device's work in each step. The times of its records are CLOCK_MONOTONIC, the clock of the
/// communicators. There can be one per process.
class CuptiCollector final : public StepObserver {
 public:
  /// Subscribes before anything else and enables the activity kinds. Must be called before the first CUDA
  /// call of the process, so that modules loaded later are covered and NVTX ranges reach CUPTI. Returns null,
  /// with the reason in `reason`, when another profiler has subscribed (Nsight Systems, Nsight Compute,
  /// compute-sanitizer) or CUPTI refuses. Then only NVTX ranges are available.
  static std::unique_ptr<CuptiCollector> start(std::string& reason);
  /// Turns recording off and detaches CUPTI.
  ~CuptiCollector() override;
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  void step_begins(int index) override;
  void action_begins(const Action& action, Bytes message) override;
  void action_goes_on(const Action& action) override;
  void action_ends(const Action& action) override;
  /// Fetches the step's records: call it outside of timed regions.
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override;

  /// Records of the last step.
  const RecordedActivities& recorded() const { return recorded_; }
  const std::vector<ActionWindow>& windows() const { return windows_; }
  /// Records lost since the start; anything but 0 means larger buffers are needed.
  std::int64_t dropped() const { return dropped_; }

 private:
  CuptiCollector() = default;
  void flush();

  std::uint64_t number_ = 0;  // of the last range
  std::int64_t dropped_ = 0;
  std::vector<ActionWindow> windows_;
  RecordedActivities recorded_;
};

}  // namespace plumbline
