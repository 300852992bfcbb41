#include "analysis/hardware/profiles/accelerator_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/machine_constants.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kModel = "h100-sxm-80gb";  // for constants that the file leaves out
constexpr std::array<std::string_view, 3> kNeeded = {"memory_bytes", "bandwidth", "peak_16bit"};
constexpr std::array<std::string_view, 4> kNarrow = {"peak_8bit", "peak_mx8", "peak_4bit", "gemm_share_4bit"};

/// Unit and range of a constant, by how its name ends or begins.
struct Unit {
  double least, most;
  const char* words;
};
Unit unit_of(std::string_view name) {
  if (name == "memory_bytes") return {1e9, 1e13, "bytes, such as 8.5e10 for 80 GB"};
  if (name.ends_with("processors")) return {1, 1e4, "their number"};
  if (name == "power_watts") return {10, 1e5, "watts"};
  if (name.ends_with("_slowdown") || name.ends_with("_speedup")) return {0.1, 10, "a factor, such as 1.2"};
  if (name == "switch_reduction") return {1, 4, "a factor over a ring's bus bandwidth"};
  if (name == "random_s") return {1e-15, 1e-9, "seconds per number, such as 5e-12"};
  const MachineConstant* constant = find_machine_constant(name);
  if (constant != nullptr && constant->of_network() && name.ends_with("bandwidth"))
    return {1e6, 1e14, "bytes/s, such as 5e10 for 400 Gbit/s"};
  if (name == "cache_bandwidth") return {1e11, 1e15, "bytes/s, such as 5e12"};
  if (name.ends_with("bandwidth")) return {1e9, 1e14, "bytes/s, such as 3.35e12 for 3.35 TB/s"};
  if (name.starts_with("peak_")) return {1e11, 1e17, "FLOP/s, such as 9.89e14 for 989 TFLOP/s"};
  if (name.ends_with("_bytes")) return {0, 1e12, "bytes"};
  if (name.ends_with("_s")) return {0, 1e-2, "seconds, such as 3e-6"};
  return {0.01, 1, "a share of the peak, from 0.01 to 1"};
}

/// The file, with its place in error messages.
struct Source {
  std::string_view text;
  std::string origin;
  /// "mine.json:7: constants.bandwidth": where the key is first written.
  std::string place(std::string_view key) const {
    const std::size_t at = text.find(fmt::format("\"{}\"", key));
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
    return fmt::format("{}:{}: constants.{}", origin, 1 + std::count(text.begin(), end, '\n'),
                       printable(std::string(key)));
  }
};

/// Datasheets print rates for operands that are half zero: twice a known dense peak, unless that is a dense
/// peak as well.
void refuse_sparse(const Source& source, const MachineConstant& constant, double value) {
  const auto near = [](double a, double b) { return std::abs(a / b - 1) < 0.01; };
  const auto& machines = built_in_profiles().machines;
  for (const auto& [name, machine] : machines) {
    if (near(value, constant.in(machine))) return;
  }
  for (const auto& [name, machine] : machines) {
    const double dense = constant.in(machine);
    if (dense <= 0 || !near(value, 2 * dense)) continue;
    throw InputError(
        fmt::format("{}: found {:.4g}, twice the dense peak of {}: it looks like one with sparsity; expected "
                    "the dense one, {:.4g}, or \"dense\": true alongside it",
                    source.place(constant.name), value, name, value / 2));
  }
}

/// Checks the ratio of narrower types: twice as fast at half the width, three times at most, and never
/// slower. A peak that is taken from another accelerator may not fit the file's.
void check_ratios(const Source& source, const Machine& machine, const std::vector<std::string_view>& given,
                  const std::string& like) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kWider = {
      {{"peak_8bit", "peak_16bit"}, {"peak_mx8", "peak_16bit"}, {"peak_4bit", "peak_8bit"}}};
  const auto is_given = [&](const char* name) {
    return std::find(given.begin(), given.end(), name) != given.end();
  };
  for (const auto& [narrow, wide] : kWider) {
    const double peak = find_machine_constant(narrow)->in(machine);
    const double ratio = peak / find_machine_constant(wide)->in(machine);
    const bool known = is_given(narrow) || is_given(wide);
    if (!known || peak == 0 || (ratio >= 1 && ratio <= 3.1)) continue;
    const bool both = is_given(narrow) && is_given(wide);
    const char* const own = is_given(narrow) ? narrow : wide;
    const char* const taken = is_given(narrow) ? wide : narrow;
    throw InputError(fmt::format(
        "{}: found {:.4g}, which makes {} {:.3g} times {}, expected {}", source.place(own),
        find_machine_constant(own)->in(machine), narrow, ratio, wide,
        !both       ? fmt::format("1 to 3 times; {} is that of {}: give it as well", taken, like)
        : ratio > 1 ? "2 to 3 times: one of them looks like a peak with sparsity; give the dense ones"
                    : "1 to 3 times: a narrower type is no slower; change one of them"));
  }
}

double checked(const Source& source, const MachineConstant& constant, const JsonKeys& entry) {
  const double value = entry.number("value");
  const Unit unit = unit_of(constant.name);
  if (!(value >= unit.least && value <= unit.most)) {
    throw InputError(fmt::format("{}: found {:.6g}, expected {:.6g} to {:.6g}: {}",
                                 source.place(constant.name), value, unit.least, unit.most, unit.words));
  }
  const bool said_dense = entry.boolean_or("dense", false);
  if (constant.name.starts_with("peak_") && constant.name != "peak_fp32" && !said_dense) {
    refuse_sparse(source, constant, value);
  }
  return value;
}

std::string joined_names() {
  std::string names = "gpus_per_node";
  for (const MachineConstant& constant : machine_constants()) names += ", " + std::string(constant.name);
  return names;
}

/// The accelerator that the file is based on, and whether it names one.
Machine base_of(const JsonKeys& file) {
  const auto& machines = built_in_profiles().machines;
  if (file.find("like") != nullptr) {
    const auto found = machines.find(file.string("like"));
    if (found == machines.end()) {
      file.refuse("like", fmt::format("one of {}", fmt::join(hardware_preset_names(), ", ")));
    }
    return found->second;
  }
  Machine base = machines.find(kModel)->second;
  for (const std::string_view narrow : kNarrow) find_machine_constant(narrow)->in(base) = 0;
  return base;
}

std::vector<std::string> defaults_of(Machine& machine, const std::vector<std::string_view>& given,
                                     const std::string& like, const std::string& network) {
  std::vector<std::string> lines;
  lines.reserve(machine_constants().size());
  for (const MachineConstant& constant : machine_constants()) {
    if (std::find(given.begin(), given.end(), constant.name) != given.end()) continue;
    if (constant.of_network() && !network.empty()) continue;
    lines.push_back(fmt::format("{} {:.4g}", constant.name, constant.in(machine)));
  }
  if (lines.empty()) return lines;
  return {fmt::format("as {}: {}", like, fmt::join(lines, ", "))};
}

}  // namespace

bool describes_accelerator(std::string_view json) {
  const Json value = Json::parse(json, nullptr, false);
  return value.is_object() && value.contains("constants");
}

HardwareProfile parse_accelerator(std::string_view text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const JsonKeys file(root, origin, JsonNull::refused);
  const Source source{text, origin};
  const std::string name = printable(file.string("name"), 100);
  if (name.empty()) file.refuse("name", "a text that is not empty");
  Machine machine = base_of(file);
  const std::string like = file.string_or("like", std::string(kModel));
  const std::string network = file.string_or("network", "");
  if (!network.empty()) {
    const auto& networks = built_in_profiles().networks;
    const auto found = networks.find(network);
    if (found == networks.end()) {
      std::string names;
      for (const auto& [known, each] : networks) names += (names.empty() ? "" : ", ") + known;
      file.refuse("network", "one of " + names);
    }
    machine.network = found->second;
  }
  std::vector<std::string_view> given;
  const auto constants = file.members("constants");
  given.reserve(constants.size());
  for (const auto& [key, entry] : constants) {
    if (entry.string("source").empty()) entry.refuse("source", "a text that is not empty");
    if (key == "gpus_per_node") {
      machine.network.gpus_per_node = static_cast<int>(entry.integer("value", 1024));
    } else {
      const MachineConstant* constant = find_machine_constant(key);
      if (constant == nullptr) {
        throw InputError(
            fmt::format("{}: not a constant, expected one of {}", source.place(key), joined_names()));
      }
      constant->in(machine) = checked(source, *constant, entry);
      given.push_back(constant->name);
    }
    entry.refuse_unknown();
  }
  (void)file.string_or("description", "");
  file.refuse_unknown();
  if (file.find("like") == nullptr) {
    for (const std::string_view needed : kNeeded) {
      if (std::find(given.begin(), given.end(), needed) != given.end()) continue;
      throw InputError(
          fmt::format("{}: constants.{}: missing, expected {}; or \"like\": an accelerator that it is "
                      "taken from",
                      origin, needed, unit_of(needed).words));
    }
  }
  check_ratios(source, machine, given, like);
  const bool same_device = file.find("like") != nullptr &&
                           std::all_of(given.begin(), given.end(),
                                       [](auto each) { return find_machine_constant(each)->of_network(); });
  if (!same_device) {  // of single shapes nothing is known
    machine.device.rates = nullptr;
    machine.device.measured = nullptr;
  }
  machine.network.of_user = !constants.empty() || !network.empty();
  check_machine(machine, origin);
  HardwareProfile profile = accelerator_profile(name, machine);
  profile.machine = "constants of " + printable(origin, 200);
  profile.defaults = defaults_of(machine, given, like, network);
  return profile;
}

}  // namespace plumbline
