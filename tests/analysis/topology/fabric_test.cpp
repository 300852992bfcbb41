// Published networks switch by switch and cable by cable; Slurm's descriptions, damaged ones included.
#include "analysis/topology/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "analysis/topology/fabric_generators.hpp"
#include "analysis/topology/host_names.hpp"
#include "analysis/topology/slurm_topology.hpp"
#include "core/base/error.hpp"

namespace plumbline::fabric_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct SuperPodRow {
  SuperPod generation;
  int units;
  std::vector<std::int64_t>
      counts;  // nodes, GPUs, leaf, spine, core, cables: node-leaf, leaf-spine, spine-core
};

// docs.nvidia.com/dgx-superpod, reference architectures of B200 and B300, scalable infrastructure.
TEST(Fabric, SuperPodsHaveTheSwitchesAndCablesThatArePrinted) {
  const SuperPodRow rows[] = {{SuperPod::b200, 2, {64, 512, 16, 8, 0, 512, 512, 0}},
                              {SuperPod::b200, 4, {128, 1024, 32, 16, 0, 1024, 1024, 0}},
                              {SuperPod::b200, 8, {256, 2048, 64, 32, 0, 2048, 2048, 0}},
                              {SuperPod::b200, 16, {512, 4096, 128, 128, 64, 4096, 4096, 4096}},
                              {SuperPod::b200, 32, {1024, 8192, 256, 256, 128, 8192, 8192, 8192}},
                              {SuperPod::b200, 64, {2048, 16384, 512, 512, 256, 16384, 16384, 16384}},
                              {SuperPod::b300, 1, {64, 512, 16, 8, 0, 512, 512, 0}},
                              {SuperPod::b300, 2, {128, 1024, 32, 16, 0, 1024, 1024, 0}},
                              {SuperPod::b300, 4, {256, 2048, 64, 32, 0, 2048, 2048, 0}},
                              {SuperPod::b300, 8, {512, 4096, 128, 64, 0, 4096, 4096, 0}},
                              {SuperPod::b300, 16, {1024, 8192, 256, 128, 0, 8192, 8192, 0}}};
  for (const SuperPodRow& row : rows) {
    const FabricCounts counts = counts_of(make_superpod(row.generation, row.units));
    EXPECT_THAT((std::vector<std::int64_t>{counts.nodes, counts.gpus, counts.switches[0], counts.switches[1],
                                           counts.switches[2], counts.cables_to_nodes, counts.cables_above[0],
                                           counts.cables_above[1]}),
                testing::ElementsAreArray(row.counts))
        << row.units;
  }
}

/// Ports of every switch, in cables.
std::map<int, double> ports_of(const Fabric& fabric) {
  std::map<int, double> ports;
  for (const int leaf : fabric.leaf_of_gpu) ports[leaf] += 1;
  for (const CableBundle& bundle : fabric.bundles) {
    ports[bundle.lower] += bundle.cables;
    ports[bundle.upper] += bundle.cables;
  }
  return ports;
}

TEST(Fabric, NoSwitchHasMorePortsThanItHas) {
  for (const char* name :
       {"superpod-b200:1", "superpod-b200:8", "superpod-b200:16", "superpod-b200:64", "superpod-b300:16"}) {
    for (const auto& [index, ports] : ports_of(make_fabric(name)))
      ASSERT_NEAR(ports, 64, 1e-9) << name << ' ' << index;
  }
  for (const auto& [index, ports] : ports_of(make_fabric("fat-tree:16"))) ASSERT_EQ(ports, 16) << index;
}

TEST(Fabric, OthersHaveTheSizesOfTheirPapers) {
  const FabricCounts tree = counts_of(make_fat_tree(16, 8));
  EXPECT_EQ(tree.gpus, 16 * 16 * 16 / 4);
  EXPECT_EQ(tree.switches[0] + tree.switches[1] + tree.switches[2], 128 + 128 + 64);
  const FabricCounts llama = counts_of(make_llama3(8));
  EXPECT_EQ(llama.gpus, 8 * 3072);
  EXPECT_EQ(llama.switches[0], 8 * 192);
  EXPECT_EQ(llama.cables_above[0], 8 * 3072);
  EXPECT_EQ(llama.cables_above[1], 3511);  // 24,576 ÷ 7
  const FabricCounts rails = counts_of(make_rail_only(128, 8, 1));
  EXPECT_EQ(rails.switches[0], 8);
  EXPECT_EQ(rails.cables_above[0], 0);
  for (const char* wrong : {"", "superpod-b200", "superpod-b200:3", "superpod-b200:128", "superpod-b300:32",
                            "fat-tree:7", "fat-tree:12", "rail-only:0", "llama3:x", "llama3:-1", "mesh:4"})
    EXPECT_THROW(make_fabric(wrong), InputError) << wrong;
}

TEST(HostNames, ListsAreExpandedAsSlurmDoes) {
  const auto expand = [](const char* list) { return expand_hosts(list, "test", 1000); };
  EXPECT_THAT(expand("a"), ElementsAre("a"));
  EXPECT_THAT(expand("n[1-3],b"), ElementsAre("n1", "n2", "n3", "b"));
  EXPECT_THAT(expand("n[01,08-10]"), ElementsAre("n01", "n08", "n09", "n10"));
  EXPECT_THAT(expand("r[0-1]n[2,4]x"), ElementsAre("r0n2x", "r0n4x", "r1n2x", "r1n4x"));
  EXPECT_EQ(expand("n[1-1000]").size(), 1000U);
  for (const char* wrong : {"", ",a", "a,", "n[1-", "n[1-3", "n[3-1]", "n[]", "n[a]", "n[1-1001]",
                            "n[1-99]m[1-99]", "n 1", "n[99999999999]", "n]", "n[1;2]"}) {
    EXPECT_THROW(expand(wrong), InputError) << wrong;
  }
}

constexpr const char* kTree =
    "# a small cluster\nSwitchName=s0 Nodes=n[0-3]\n switchname=s1 nodes=n[4-7] LinkSpeed=400  # second\n\n"
    "SwitchName=top Switches=s[0-1]\n";

TEST(SlurmTopology, ATreeIsReadFromBothKindsOfFile) {
  const char* yaml =
      "---\n- topology: other\n  flat: true\n- topology: mine\n  cluster_default: true\n  tree:\n    "
      "switches:\n"
      "      - {switch: top, children: 's[0-1]'}\n      - {switch: s0, nodes: 'n[0-3]'}\n"
      "      - {switch: s1, nodes: 'n[4-7]'}\n";
  for (const SlurmTopology& topology : {parse_slurm_conf(kTree, "t"), parse_slurm_yaml(yaml, "t")}) {
    const Fabric fabric = fabric_of(topology, 8, 2);
    EXPECT_EQ(fabric.nodes, 8);
    EXPECT_THAT(fabric.hosts, ElementsAre("n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"));
    const FabricCounts counts = counts_of(fabric);
    EXPECT_EQ(counts.switches[0], 2);
    EXPECT_EQ(counts.switches[1], 1);
    EXPECT_EQ(counts.cables_above[0], 32);
    EXPECT_NE(fabric.leaf_of_gpu[0], fabric.leaf_of_gpu[32]);
  }
}

TEST(SlurmTopology, TheDefaultMayBeSaidInWordsOfYaml11) {
  const auto chosen = [](const std::string& word) {
    return parse_slurm_yaml(
               "- {topology: a, tree: {switches: [{switch: s, nodes: n1}]}}\n- {topology: b, "
               "cluster_default: " +
                   word + ", tree: {switches: [{switch: s, nodes: n1}]}}\n",
               "t")
        .name;
  };
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "on", "y"})
    EXPECT_EQ(chosen(word), "b") << word;
  for (const char* word : {"false", "False", "no", "NO", "off"}) EXPECT_EQ(chosen(word), "a") << word;
  EXPECT_THROW(chosen("maybe"), InputError);
}

TEST(SlurmTopology, BlocksAreNvlinkDomains) {
  const char* conf = "BlockName=b1 Nodes=a[01-18]\nBlockName=b2 Nodes=b[01-18]\nBlockSizes=18,36\n";
  const char* yaml =
      "- topology: nvl72\n  block:\n    block_sizes: [18]\n    blocks:\n      - {block: b1, nodes: "
      "'a[01-18]'}\n"
      "      - {block: b2, nodes: 'b[01-18]'}\n";
  for (const SlurmTopology& topology : {parse_slurm_conf(conf, "t"), parse_slurm_yaml(yaml, "t")}) {
    EXPECT_TRUE(topology.blocks);
    const Fabric fabric = fabric_of(topology, 4, 1);
    EXPECT_EQ(fabric.nodes, 36);
    EXPECT_EQ(fabric.nodes_per_domain, 18);
    EXPECT_EQ(fabric.domain_of(71), 0);
    EXPECT_EQ(fabric.domain_of(72), 1);
  }
}

TEST(SlurmTopology, WhatIsNoTopologyIsRefusedInOneLine) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "found no switch"},
      {"SwitchName", "t:1: found SwitchName, expected Key=value"},
      {"Nodes=n1\n", "expected SwitchName"},
      {"SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "t:2: found two kinds"},
      {"SwitchName=a Colour=red\n", "found colour"},
      {"SwitchName=a Nodes=n[1-9999999]\n", "at most"},
      {"SwitchName=a\n", "either nodes at it or switches below it"},
      {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "names of their own"},
      {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "every node at one"},
      {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n", "found 2 switches with none above them"},
      {"SwitchName=a Switches=b\n", "one that has a line of its own"},
      {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "in a loop"},
      {"SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n", "below two others"},
      {"SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=b\nSwitchName=d Switches=c\n",
       "three levels"},
      {"BlockName=a Nodes=n1\nBlockName=b Nodes=m[1-2]\n", "blocks of one size"}};
  for (const auto& [text, what] : wrong) {
    try {
      fabric_of(parse_slurm_conf(text, "t"), 8, 1);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what)) << text;
    }
  }
  for (const char* yaml :
       {"a: b\n", "[]\n", "- 7\n", "- {topology: a}\n", "- {topology: a, tree: {switches: []}}\n",
        "- {topology: a, tree: {switches: [{nodes: n1}]}}\n", "- [\n"})
    EXPECT_THROW(parse_slurm_yaml(yaml, "t"), InputError) << yaml;
}

}  // namespace
}  // namespace plumbline::fabric_test
