// The last step of a CUDA run, kernel by kernel: kept on every rank, merged on the first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/profile/cupti_collector.hpp"
#include "core/profile/merged_timeline.hpp"
#include "core/run/step_observer.hpp"

namespace plumbline {

/// Keeps each step's events and activities until the next.
class CudaTrace final : public StepObserver {
 public:
  /// Must be made before the first CUDA call. If CUPTI does not record, the reason is printed on stderr of
  /// world rank 0, and the trace has actions without kernels. Collective over `control`'s world.
  explicit CudaTrace(MpiCommunicator& control);

  void step_begins(int index) override;
  void action_begins(const Action& action, Bytes message) override;
  void action_goes_on(const Action& action) override;
  void action_ends(const Action& action) override;
  /// Must come after the observer that puts the device's times in.
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override;

  /// World rank 0 writes the last step of every pipeline rank (tensor and data coordinate 0) as Chrome trace
  /// events. `device_error` bounds the error of this rank's device times against its host's clock. Returns
  /// the reason there when nothing could be written: the ranks' times cannot be put on one clock, records
  /// were lost, or the file is not to be had. A measurement is worth more than its trace. Collective.
  std::string write(const Schedule& schedule, const std::string& path, Seconds device_error);

 private:
  ClockReading read_clock() const;
  /// This rank's. Throws Error when records were lost.
  RankActivities activities(Seconds device_error) const;

  MpiCommunicator& control_;
  std::unique_ptr<CuptiCollector> collector_;
  ClockReading first_, last_;
  Seconds origin_;
  std::vector<Event> events_;
};

}  // namespace plumbline
