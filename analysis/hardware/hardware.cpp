#include "analysis/hardware/hardware.hpp"

#include <algorithm>

namespace plumbline {

std::string_view name_of(GemmPass pass) {
  switch (pass) {
    case GemmPass::forward:
      return "forward";
    case GemmPass::input_gradient:
      return "input_gradient";
    case GemmPass::weight_gradient:
      return "weight_gradient";
  }
  return "?";
}

bool HardwareProfile::measured_fp8() const {
  return alone.empty() || std::any_of(alone.begin(), alone.end(), [](const OperatorTimes& times) {
           return times.gemm.count("forward.fp8") > 0;
         });
}

}  // namespace plumbline
