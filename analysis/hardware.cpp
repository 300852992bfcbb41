#include "analysis/hardware.hpp"

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

}  // namespace plumbline
