#include "bench/training/parameters/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"

namespace plumbline::training {

const Parameter& ParameterLayout::find(std::string_view role, std::int64_t layer) const {
  for (const Parameter& parameter : list) {
    if (parameter.layer == layer && parameter.role == role) return parameter;
  }
  throw Error(fmt::format("no parameter {} of layer {} in this stage", role, layer));
}

bool is_adapter(const Parameter& parameter) {
  return parameter.role.find(".lora_") != std::string::npos;
}

bool ParameterLayout::trains(int unit) const {
  if (!frozen) return unit != kUntrained;
  return std::find(adapter_units.begin(), adapter_units.end(), unit) != adapter_units.end();
}

}  // namespace plumbline::training
