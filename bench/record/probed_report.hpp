// The prediction at the speed that the machine had when a cell was measured.
#pragma once

#include "core/base/by_class.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

struct ProbedReport {
  ByClass before, after;  // how many times longer than calibrated, straight before and after the cell
  ByClass speed;          // of the cell by these (bench/measure/calibrate/speed_of_moment.hpp)
  double stretch = 1;     // how many times longer the step took because others had its processors
  StepTime time;          // with both
};

}  // namespace plumbline
