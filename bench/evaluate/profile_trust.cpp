#include "bench/evaluate/profile_trust.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline {
namespace {

constexpr std::int64_t kDay = 86'400;  // seconds
constexpr std::int64_t kOldDays = 7;
constexpr double kNoisy = 0.1;

}  // namespace

std::vector<std::string> doubts_about(const HardwareProfile& hardware, const MachineReport& here,
                                      std::int64_t now, bool measured) {
  std::vector<std::string> doubts;
  const Calibration& calibration = hardware.calibration;
  if (!calibration.known()) return doubts;
  const std::int64_t days = (now - calibration.unix_s) / kDay;
  if (days > kOldDays) {
    doubts.push_back(fmt::format(
        "the hardware profile is {} days old: machines change; `plumbline calibrate` takes at most 90 s",
        days));
  }
  std::vector<std::string> moved;
  for (const SpeedClass& each : kSpeedClasses) {
    if (calibration.noise.*each.member > kNoisy)
      moved.push_back(fmt::format("{} by {:.0f} %", each.name, 100 * calibration.noise.*each.member));
  }
  if (!moved.empty()) {
    doubts.push_back(
        fmt::format("the machine was not steady when it was calibrated ({} within a minute): predicted times "
                    "are as uncertain",
                    fmt::join(moved, ", ")));
  }
  if (static_cast<double>(calibration.unsettled) > kNoisy * static_cast<double>(calibration.figures)) {
    doubts.push_back(
        fmt::format("{} of the {} figures of the hardware profile were not settled: calibrate again when "
                    "nothing else runs",
                    calibration.unsettled, calibration.figures));
  }
  if (2 * calibration.seen_once > calibration.figures) {
    doubts.push_back(
        fmt::format("{} of the {} figures of the hardware profile were looked at only once: calibrate again "
                    "when nothing else runs",
                    calibration.seen_once, calibration.figures));
  }
  if (measured && (calibration.host != here.host || calibration.cpu != here.cpu)) {
    doubts.push_back(
        fmt::format("the hardware profile is of another machine: found {} ({}), this is {} ({}); run "
                    "`plumbline calibrate` here",
                    calibration.host, calibration.cpu, here.host, here.cpu));
  }
  return doubts;
}

}  // namespace plumbline
