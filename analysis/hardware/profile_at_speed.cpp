#include "analysis/hardware/profile_at_speed.hpp"

#include <map>
#include <string>

namespace plumbline {
namespace {

template <class Table>
void stretch(std::map<std::string, Table>& tables, double longer) {
  for (auto& [key, table] : tables) {
    for (double& seconds : table.seconds) seconds *= longer;
  }
}

void stretch(Curve& curve, double longer) {
  for (double& seconds : curve.seconds) seconds *= longer;
}

}  // namespace

HardwareProfile at_speed(const HardwareProfile& profile, const ByClass& longer) {
  HardwareProfile scaled = profile;
  for (auto* list : {&scaled.alone, &scaled.busy}) {
    for (OperatorTimes& times : *list) {
      stretch(times.gemm, longer.compute);
      stretch(times.attention, longer.compute);
      stretch(times.memory_bound, longer.memory);
      stretch(times.by_row, longer.memory);
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
