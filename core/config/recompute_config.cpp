#include "core/config/recompute_config.hpp"

namespace plumbline {

std::string to_string(const RecomputeModules& modules) {
  std::string text;
  for (const RecomputeModuleName& module : kRecomputeModules) {
    if (!(modules.*module.member)) continue;
    if (!text.empty()) text += ',';
    text += module.name;
  }
  return text;
}

}  // namespace plumbline
