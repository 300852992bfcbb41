#include "core/config/recompute_config.hpp"

namespace plumbline {
namespace {

template <class Modules, class Names>
std::string joined(const Modules& modules, const Names& names) {
  std::string text;
  for (const auto& module : names) {
    if (!(modules.*module.member)) continue;
    if (!text.empty()) text += ',';
    text += module.name;
  }
  return text;
}

}  // namespace

std::string to_string(const RecomputeModules& modules) {
  return joined(modules, kRecomputeModules);
}

std::string to_string(const OffloadModules& modules) {
  return modules.any() ? joined(modules, kOffloadModules) : "none";
}

}  // namespace plumbline
