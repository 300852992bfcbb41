// Machines and software generations by name, read from the data files in analysis/hardware/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/machine.hpp"
#include "analysis/hardware/software.hpp"

namespace plumbline {

struct Profiles {
  std::map<std::string, Network, std::less<>> networks;
  std::map<std::string, Machine, std::less<>> machines;
  std::map<std::string, Software, std::less<>> software;

  /// Throws InputError with the known names.
  const Machine& machine(std::string_view name) const;
  const Software& generation(std::string_view name) const;
};

/// The data files of analysis/hardware/, in one.
const Profiles& built_in_profiles();
/// Parses such a file as untrusted input; every constant must have a value and a source.
Profiles parse_profiles(std::string_view json, const std::string& origin);

}  // namespace plumbline
