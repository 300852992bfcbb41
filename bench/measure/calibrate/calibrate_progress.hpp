// Progress of a calibration.
#pragma once

#include <chrono>
#include <string>

namespace plumbline::calibration {

/// "[calibrate] operators 40 %" on stderr, a line per fifth (on a terminal: one line that changes).
class CalibrateProgress {
 public:
  explicit CalibrateProgress(bool quiet);
  /// `what` is a literal, `share` the finished part of it.
  void show(const char* what, double share);

 private:
  using Clock = std::chrono::steady_clock;
  /// Time left for this part, at its pace so far.
  std::string left(double share) const;

  bool quiet_;
  bool terminal_;
  Clock::time_point began_;
  double began_at_ = 0;
  const char* last_what_ = nullptr;
  int last_percent_ = -1;
};

}  // namespace plumbline::calibration
