// libFuzzer target. For any bytes, the readers of Slurm's topologies and of fleets return a result or throw
// InputError. The result is a network whose every port has a switch.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analysis/reliability/fleet.hpp"
#include "analysis/topology/fabric.hpp"
#include "analysis/topology/slurm_topology.hpp"
#include "core/base/error.hpp"
#include "core/base/yaml_text.hpp"

namespace {

using namespace plumbline;

template <class Read>
void refused_or_read(const Read& read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

void check(const SlurmTopology& topology) {
  const Fabric fabric = fabric_of(topology, 2, 1);
  if (static_cast<std::int64_t>(fabric.leaf_of_gpu.size()) != fabric.gpus()) std::abort();
  for (const int leaf : fabric.leaf_of_gpu) {
    if (leaf < 0 || static_cast<std::size_t>(leaf) >= fabric.switches.size()) std::abort();
  }
  for (const CableBundle& bundle : fabric.bundles) {
    if (!(bundle.cables > 0)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  refused_or_read([&] { check(parse_slurm_conf(text, "fuzz")); });
  refused_or_read([&] { check(parse_slurm_yaml(text, "fuzz")); });
  refused_or_read([&] { (void)parse_fleet(parse_yaml_object(text, "fuzz"), "fuzz", "fuzz"); });
  return 0;
}
