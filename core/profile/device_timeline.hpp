// When the device began and ended each action: the host's clock only knows the submission.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/backends/nccl/device_events.hpp"
#include "core/backends/nccl/device_lanes.hpp"
#include "core/run/step_observer.hpp"

namespace plumbline {

/// Records an event in the compute stream at both ends of every action, and after the step puts the device's
/// times into the events. An action's time includes its stream's waits, as on a processor.
class DeviceTimeline final : public StepObserver {
 public:
  /// `now` reads the clock that origins come from; `tensor_time`, if given, is called once per step for the
  /// time in collectives over the tensor group. `lanes`, if given, is cleared at the begin of a step, and its
  /// spans of the step are put on the same clock.
  DeviceTimeline(cudaStream_t compute, std::function<Seconds()> now, std::function<Seconds()> tensor_time,
                 DeviceLanes* lanes = nullptr);

  /// The stream must be idle.
  void step_begins(int index) override;
  void action_begins(const Action& action, Bytes message) override;
  void action_ends(const Action& action) override;
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override;
  void add_lanes(Seconds origin, std::vector<LaneSpan>& lanes) override;

  /// Bound of the error of the device's times against the host's clock, in the last step.
  Seconds error() const { return error_; }

 private:
  std::size_t record();

  cudaStream_t compute_;
  std::function<Seconds()> now_;
  std::function<Seconds()> tensor_time_;
  DeviceLanes* lanes_;
  DeviceEvent base_{cudaEventDefault};
  Seconds base_time_;  // of the host's clock when the device was at base_
  Seconds error_;
  /// Positions of an action's begin and end events; an overlapped pair's second action begins before its
  /// first has ended.
  struct Ends {
    Action action;
    std::size_t begin;
    std::size_t end;  // kOpen until it has ended
  };
  std::vector<std::unique_ptr<DeviceEvent>> events_;
  std::size_t in_use_ = 0;
  std::vector<Ends> actions_;  // of this step, in the order in which they began
};

}  // namespace plumbline
