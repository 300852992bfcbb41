// An accelerator and the network around it: one machine of analysis/hardware/clusters.json.
#pragma once

#include "analysis/hardware/device.hpp"
#include "analysis/hardware/network.hpp"

namespace plumbline::cluster {

struct Machine {
  Device device;
  Network network;
};

}  // namespace plumbline::cluster
