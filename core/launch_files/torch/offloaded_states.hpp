// States in host memory, as DeepSpeed and FSDP are told to have them.
#pragma once

#include <initializer_list>
#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// Arguments of ZeRO-Offload; `ratio` is empty where there is none.
struct ZeroOffloadNames {
  std::string optimizer;  // device of the optimizer's states: none, cpu or nvme
  std::string ratio;      // share of them
  std::string params;     // device of ZeRO 3's parameters
};

/// Sets optimizer_offload_fraction and offload_params by zero_stage; states on disks are not modelled.
void set_zero_offload(LaunchArguments& from, const ZeroOffloadNames& names);

/// Sets both if one of the switches is on: FSDP offloads parameters, gradients and optimizer states.
void set_fsdp_offload(LaunchArguments& from, std::initializer_list<const char*> switches);

}  // namespace plumbline
