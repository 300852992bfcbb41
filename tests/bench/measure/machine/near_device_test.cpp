// Processors next to a GPU, on machines that XML describes.
#include "bench/measure/machine/near_device.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.hpp"

namespace plumbline::near_device_test {
namespace {

/// A package with a NUMA node and two cores of one thread each, numbers 2 * package and the next. It has a
/// GPU on a bus of its own: 1a on the first, 9b on the second.
std::string package(int number) {
  const int own = number == 0 ? 0x3 : 0xc;
  const int node = 1 << number;
  const std::string sets =
      R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="{1:#x}" complete_nodeset="{1:#x}")";
  std::string text = fmt::format(R"(<object type="Package" os_index="{}" {} gp_index="{}">)", number,
                                 fmt::format(fmt::runtime(sets), own, node), 10 + 100 * number);
  text += fmt::format(R"(<object type="NUMANode" os_index="{}" {} gp_index="{}" local_memory="1073741824"/>)",
                      number, fmt::format(fmt::runtime(sets), own, node), 11 + 100 * number);
  for (int i = 0; i < 2; ++i) {
    const int thread = 2 * number + i;
    for (const char* type : {"Core", "PU"}) {
      text += fmt::format(R"(<object type="{}" os_index="{}" {} gp_index="{}">)", type, thread,
                          fmt::format(fmt::runtime(sets), 1 << thread, node),
                          20 + 100 * number + 2 * i + (type[0] == 'P'));
    }
    text += "</object></object>";
  }
  const char* bus = number == 0 ? "1a" : "9b";
  text += fmt::format(
      R"(<object type="Bridge" gp_index="{0}" bridge_type="0-1" depth="0" bridge_pci="0000:[{1}-{1}]">)"
      R"(<object type="PCIDev" gp_index="{2}" pci_busid="0000:{1}:00.0" pci_type="0302 [10de:2330] )"
      R"([10de:16c1] a1" )"
      R"(pci_link_speed="0.000000"/></object></object>)",
      40 + 100 * number, bus, 41 + 100 * number);
  return text;
}

std::string two_packages() {
  return R"(<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology )"
         R"(version="2.0">)"
         R"(<object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xb" )"
         R"(nodeset="0x3" )"
         R"(complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">)" +
         package(0) + package(1) + "</object></topology>";
}

TEST(NearDevice, IsTheNumaNodeOfTheDeviceAsFarAsItIsAllowed) {
  const MachineTopology machine(two_packages());
  EXPECT_EQ(machine.near("0000:1A:00.0"), "0-1");  // as CUDA writes it
  EXPECT_EQ(machine.near("0000:1a:00.0"), "0-1");
  EXPECT_EQ(machine.near("0000:9B:00.0"), "3");  // a container may not use thread 2
  EXPECT_EQ(machine.near("0000:2C:00.0"), "");
  EXPECT_EQ(machine.near(""), "");
  EXPECT_EQ(machine.stay_near("0000:2C:00.0"), "");
}

TEST(NearDevice, WhatIsNoTopologyIsRefused) {
  EXPECT_THROW(MachineTopology("<topology"), Error);
}

}  // namespace
}  // namespace plumbline::near_device_test
