#include "bench/measure/machine/near_device.hpp"

#include <hwloc.h>

#include <array>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

using CpuSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

hwloc_topology* begun() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw Error("hwloc: a topology cannot be made");
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  return topology;
}

void load(hwloc_topology* topology) {
  if (hwloc_topology_load(topology) != 0) throw Error("hwloc: the machine's topology cannot be read");
}

/// Processors of the device's nearest ancestor that is not a bus; empty when the device is not there.
CpuSet set_near(hwloc_topology* topology, const std::string& bus) {
  CpuSet set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus.c_str());
  if (device == nullptr) return set;
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
  if (place == nullptr || place->cpuset == nullptr) return set;
  hwloc_bitmap_and(set.get(), place->cpuset, hwloc_topology_get_allowed_cpuset(topology));
  return set;
}

std::string list_of(const CpuSet& set) {
  if (hwloc_bitmap_iszero(set.get()) != 0) return "";
  std::array<char, 1024> text{};
  hwloc_bitmap_list_snprintf(text.data(), text.size(), set.get());
  return text.data();
}

}  // namespace

void MachineTopology::Destroy::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

MachineTopology::MachineTopology() : topology_(begun()) {
  load(topology_.get());
}

MachineTopology::MachineTopology(const std::string& xml) : topology_(begun()) {
  if (hwloc_topology_set_xmlbuffer(topology_.get(), xml.c_str(), static_cast<int>(xml.size()) + 1) != 0) {
    throw InputError("hwloc: the XML is not a topology");
  }
  load(topology_.get());
}

std::string MachineTopology::near(const std::string& bus) const {
  return list_of(set_near(topology_.get(), bus));
}

std::string MachineTopology::stay_near(const std::string& bus) const {
  const CpuSet set = set_near(topology_.get(), bus);
  std::string list = list_of(set);
  if (list.empty() || hwloc_set_cpubind(topology_.get(), set.get(), HWLOC_CPUBIND_THREAD) != 0) return "";
  return list;
}

}  // namespace plumbline
