#include "analysis/predict/measured_share.hpp"

#include <map>

namespace plumbline {

MeasuredShare measured_share(const std::vector<CostLine>& lines, double microbatches) {
  double all = 0, measured = 0;
  std::map<std::string, double> estimated;  // by operator
  for (const CostLine& line : lines) {
    if (line.phase.find('+') != std::string::npos) continue;  // a pair repeats lines of its two actions
    const double times = line.phase == "step" ? 1 : microbatches;
    all += times * line.seconds.value;
    measured += times * line.measured.value;
    estimated[line.label] += times * (line.seconds - line.measured).value;
  }
  MeasuredShare share;
  if (all <= 0) return share;
  share.measured = measured / all;
  for (const auto& [label, seconds] : estimated) {
    if (seconds / all <= share.estimated_share) continue;
    share.estimated = label;
    share.estimated_share = seconds / all;
  }
  return share;
}

}  // namespace plumbline
