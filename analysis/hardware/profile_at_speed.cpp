#include "analysis/hardware/profile_at_speed.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace plumbline {
namespace {

/// An operator's time with operands in caches, `cached`, scales with the speed of its class. The rest of
/// `seconds`, caused by slower operands, scales with that of the memory.
double stretched(double seconds, double cached, double longer, double bandwidth) {
  const double inside = std::min(seconds, cached);
  return inside * longer + (seconds - inside) * bandwidth;
}

Seconds time_in(const Curve& curve, const Curve& at, std::size_t i) {
  return curve.at(at.sizes[i]);
}
Seconds time_in(const Grid& grid, const Grid& at, std::size_t i) {
  const std::size_t row = i / at.z.size();
  return grid.at(at.x[row / at.y.size()], at.y[row % at.y.size()], at.z[i % at.z.size()]);
}

/// `cached`: the tables of the smallest working set, unchanged; nullptr: these are of it.
template <class Table>
void stretch(std::map<std::string, Table>& tables, const std::map<std::string, Table>* cached, double longer,
             double bandwidth) {
  for (auto& [key, table] : tables) {
    const bool has = cached != nullptr && cached->count(key) > 0;
    for (std::size_t i = 0; i < table.seconds.size(); ++i) {
      double& seconds = table.seconds[i];
      seconds =
          stretched(seconds, has ? time_in(cached->at(key), table, i).value : seconds, longer, bandwidth);
    }
  }
}

void stretch(Curve& curve, double longer) {
  for (double& seconds : curve.seconds) seconds *= longer;
}

}  // namespace

HardwareProfile at_speed(const HardwareProfile& profile, const ByClass& longer) {
  HardwareProfile scaled = profile;
  for (const auto& [list, calibrated] :
       {std::pair{&scaled.alone, &profile.alone}, std::pair{&scaled.busy, &profile.busy}}) {
    for (OperatorTimes& times : *list) {
      const OperatorTimes* cached = &times == &list->front() ? nullptr : &calibrated->front();
      const auto of = [&](auto member) { return cached == nullptr ? nullptr : &(cached->*member); };
      stretch(times.gemm, of(&OperatorTimes::gemm), longer.compute, longer.bandwidth);
      stretch(times.attention, of(&OperatorTimes::attention), longer.compute, longer.bandwidth);
      stretch(times.memory_bound, of(&OperatorTimes::memory_bound), longer.memory, longer.bandwidth);
      stretch(times.by_row, of(&OperatorTimes::by_row), longer.memory, longer.bandwidth);
    }
  }
  for (CollectiveTime& time : scaled.collectives) stretch(time.seconds, longer.messages);
  for (MessageTime& time : scaled.messages) stretch(time.seconds, longer.messages);
  for (Seconds HardwareProfile::*host :
       {&HardwareProfile::launch_overhead, &HardwareProfile::allocation, &HardwareProfile::action_overhead,
        &HardwareProfile::step_overhead}) {
    (scaled.*host).value *= longer.host;
  }
  return scaled;
}

}  // namespace plumbline
