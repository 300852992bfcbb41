#include "bench/measure/machine/named_hardware.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>

#include "analysis/hardware/profiles/hardware_nicknames.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

void name_hardware(std::string& hardware) {
  static std::set<std::string> told;
  if (hardware.empty()) return;
  const HardwareNickname nickname = hardware_nickname(hardware);
  if (nickname.preset.empty()) return;
  if (told.insert(hardware).second) {
    say(fmt::format(
        "note: hardware: {} stands for {}{}\n", printable(hardware), nickname.preset,
        nickname.others.empty() ? "" : fmt::format("; others are {}", fmt::join(nickname.others, ", "))));
  }
  hardware = nickname.preset;
}

HardwareProfile accelerator_named(const std::string& name) {
  HardwareProfile hardware = load_hardware(name);
  if (hardware.accelerator() == nullptr) {
    throw InputError(fmt::format(
        "hardware: found the calibrated profile {}, expected an accelerator such as h100-sxm-80gb",
        printable(name)));
  }
  return hardware;
}

}  // namespace plumbline
