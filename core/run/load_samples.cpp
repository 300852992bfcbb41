#include "core/run/load_samples.hpp"

#include <algorithm>
#include <cmath>

#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr Seconds kApart{0.05};  // several of the ticks that a machine counts in

}  // namespace

void LoadSamples::action_ends(const Action& /*action*/) {
  if (!readings_.empty() && monotonic_now() - readings_.back().at >= kApart) readings_.push_back(read_load());
}

LoadReading reading_at(const std::vector<LoadReading>& readings, Seconds at) {
  const auto found =
      std::upper_bound(readings.begin() + 1, readings.end() - 1, at,
                       [](Seconds time, const LoadReading& reading) { return time < reading.at; });
  const LoadReading& later = *found;
  const LoadReading& before = *(found - 1);
  const double share = (at - before.at) / (later.at - before.at);
  const auto between = [&](Seconds LoadReading::*member) {
    return before.*member + (later.*member - before.*member) * share;
  };
  LoadReading reading;
  reading.at = at;
  reading.busy = between(&LoadReading::busy);
  reading.stolen = between(&LoadReading::stolen);
  reading.own = between(&LoadReading::own);
  reading.waited = between(&LoadReading::waited);
  reading.involuntary =
      before.involuntary + std::llround(static_cast<double>(later.involuntary - before.involuntary) * share);
  reading.frequency = later.frequency;
  reading.affinity = later.affinity;
  return reading;
}

LoadOfParts LoadSamples::parts() const {
  LoadOfParts parts;
  const Seconds length = (readings_.back().at - readings_.front().at) / kStepParts;
  LoadReading earlier = readings_.front();
  for (int part = 0; part < kStepParts; ++part) {
    const LoadReading later = reading_at(readings_, readings_.front().at + length * (part + 1));
    parts[static_cast<std::size_t>(part)] = difference(later, earlier);
    earlier = later;
  }
  return parts;
}

}  // namespace plumbline
