#include "bench/measure/machine/accelerator_name.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>

#include "analysis/hardware/hardware.hpp"

namespace plumbline {
namespace {

/// "rtx pro 6000" of rtx-pro-6000-96gb, "h100" of h100-sxm-80gb: the words up to the first with a digit.
std::string model_of(const std::string& accelerator) {
  const std::size_t digit = accelerator.find_first_of("0123456789");
  std::string model = accelerator.substr(0, accelerator.find('-', digit));
  std::replace(model.begin(), model.end(), '-', ' ');
  return model;
}

}  // namespace

std::string accelerator_of(const std::string& device_name, Bytes memory) {
  std::string device = device_name;
  std::transform(device.begin(), device.end(), device.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::string best;
  std::tuple<int, std::int64_t> least;  // form factors that differ, difference of memory
  for (const std::string& name : hardware_preset_names()) {
    if (device.find(model_of(name)) == std::string::npos) continue;
    int differs = 0;
    for (const char* form : {"pcie", "nvl"}) {
      const bool has = device.find(form) != std::string::npos;
      differs += has == (name.find(form) != std::string::npos) ? 0 : 1;
    }
    const std::tuple distance(differs,
                              std::abs((find_hardware_preset(name)->overhead.device - memory).value));
    if (!best.empty() && distance >= least) continue;
    best = name;
    least = distance;
  }
  return best;
}

}  // namespace plumbline
