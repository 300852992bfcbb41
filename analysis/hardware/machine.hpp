// An accelerator and the network around it: one machine of the data files in analysis/hardware/.
#pragma once

#include "analysis/hardware/device.hpp"
#include "analysis/hardware/network.hpp"

namespace plumbline {

struct Machine {
  Device device;
  Network network;
};

}  // namespace plumbline
