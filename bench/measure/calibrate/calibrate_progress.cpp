#include "bench/measure/calibrate/calibrate_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "bench/show/text/progress.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline::calibration {

CalibrateProgress::CalibrateProgress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void CalibrateProgress::show(const char* what, double share) {
  if (quiet_) return;
  const int percent = static_cast<int>(share * 100);
  const int step = terminal_ ? 1 : 20;  // percent
  if (what == last_what_ && percent / step == last_percent_ / step) return;
  if (what != last_what_) {
    began_ = Clock::now();
    began_at_ = share;
  }
  last_what_ = what;
  last_percent_ = percent;
  say(fmt::format("{}[calibrate] {:<24}{:>4} %{:<{}}{}", terminal_ ? "\r" : "", what, percent, left(share),
                  terminal_ ? 24 : 0, terminal_ && percent < 100 ? "" : "\n"));
}

std::string CalibrateProgress::left(double share) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (share >= 1 || share - began_at_ < 0.05) return "";
  return fmt::format(", about {} left", readable_duration(seconds * (1 - share) / (share - began_at_)));
}

}  // namespace plumbline::calibration
