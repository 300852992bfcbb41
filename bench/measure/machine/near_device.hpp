// The processors next to a device: those of its NUMA node.
#pragma once

#include <memory>
#include <string>

struct hwloc_topology;

namespace plumbline {

/// This machine, or one that hwloc's XML describes, with its PCI devices.
class MachineTopology {
 public:
  MachineTopology();
  explicit MachineTopology(const std::string& xml);

  /// Numbers of the hardware threads next to the device at `bus` ("0000:1A:00.0") that this process may use,
  /// as hwloc writes lists: "0-55". Empty if the device or its place is not known.
  std::string near(const std::string& bus) const;
  /// Lets the calling thread, and all later threads of this process, run next to the device, on any core;
  /// returns near(), empty when nothing was changed.
  std::string stay_near(const std::string& bus) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

}  // namespace plumbline
