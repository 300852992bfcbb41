#include "analysis/hardware/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/hardware/accelerator_file.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

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

HardwareProfile load_hardware(const std::string& preset_or_path) {
  if (const HardwareProfile* preset = find_hardware_preset(preset_or_path)) return *preset;
  if (preset_or_path.find('/') == std::string::npos && preset_or_path.find('.') == std::string::npos) {
    const std::vector<std::string> names = hardware_preset_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    throw InputError(
        fmt::format("hardware: no accelerator {} is known; did you mean {}? Choose one of {}, or give the "
                    "path of an accelerator's file or of a profile written by calibrate",
                    printable(preset_or_path), nearest_name(preset_or_path, views), fmt::join(names, ", ")));
  }
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  const std::string text = read_text_file(preset_or_path, kMaxBytes);
  if (describes_accelerator(text)) return parse_accelerator(text, preset_or_path);
  return parse_hardware(text, preset_or_path);
}

}  // namespace plumbline
