// Constants of machines and networks by name (analysis/hardware/nvidia.json, amd.json, networks.json).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "analysis/hardware/machine.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// A constant of a machine, as far as a file may name it, and the member that holds it.
struct MachineConstant {
  std::string_view name;
  std::variant<double Device::*, double MemoryBytes::*, double AttentionRates::*, double TileRates::*,
               double HostRates::*, double ScanRates::*, double ServingRates::*, double Network::*>
      member;

  bool of_network() const { return std::holds_alternative<double Network::*>(member); }
  double& in(Machine& machine) const;
  double in(const Machine& machine) const;
};

/// All of them but gpus_per_node and gpus_per_host, whole numbers.
std::span<const MachineConstant> machine_constants();
/// The one of this name; null if there is none.
const MachineConstant* find_machine_constant(std::string_view name);

/// Sets the constant `name` from `constant`'s "value"; false if there is none of that name. Throws InputError
/// for a value that is not a number.
bool set_machine(Machine& machine, std::string_view name, const JsonKeys& constant);
bool set_network(Network& network, std::string_view name, const JsonKeys& constant);

/// Throws InputError when the machine lacks a rate, a share or a bandwidth that times are computed from.
void check_machine(const Machine& machine, const std::string& place);

}  // namespace plumbline
