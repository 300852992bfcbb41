// Host lists as Slurm and Open MPI write them, and invalid ones.
#include "bench/processes/hosts/host_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline::host_list_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostList, SlurmsBracketsAreExpanded) {
  const struct {
    const char* text;
    std::vector<std::string> hosts;
  } cases[] = {
      {"node1", {"node1"}},
      {"node[1-3]", {"node1", "node2", "node3"}},
      {"node[08-11]", {"node08", "node09", "node10", "node11"}},
      {"n[1-2,07],login", {"n1", "n2", "n07", "login"}},
      {"rack[0-1]n[1-2]", {"rack0n1", "rack0n2", "rack1n1", "rack1n2"}},
      {"gpu-a[1,3]-ib,gpu-b2.cluster", {"gpu-a1-ib", "gpu-a3-ib", "gpu-b2.cluster"}},
  };
  for (const auto& c : cases) EXPECT_EQ(expand_node_list(c.text, "LIST"), c.hosts) << c.text;
}

TEST(HostList, WhatIsNoListIsRefused) {
  for (const char* text : {"", ",", "n[", "n[1", "n[]", "n[2-1]", "n[a]", "n[-1]", "n[1-99999999]",
                           "-oProxyCommand=x", "a b", "n[0-65535][0-65535]", "$(id)", "n[1]]"}) {
    EXPECT_THROW(expand_node_list(text, "LIST"), InputError) << text;
  }
  EXPECT_THAT([] { expand_node_list("n[2-1]", "SLURM_JOB_NODELIST"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("SLURM_JOB_NODELIST"), HasSubstr("[1-3,7]"))));
}

TEST(HostList, TasksPerNodeAreRepeated) {
  EXPECT_EQ(expand_counts("2(x3),1", "COUNTS"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_counts("4", "COUNTS"), std::vector<int>{4});
  for (const char* text : {"", "0", "2(x)", "2(x0)", "2(x3", "x", "2(x99999999)", "-1"}) {
    EXPECT_THROW(expand_counts(text, "COUNTS"), InputError) << text;
  }
  EXPECT_EQ(hosts_of_slurm("n[1-2],m", "NODES", "2(x2),1", "COUNTS"),
            (std::vector<Host>{{"n1", 2}, {"n2", 2}, {"m", 1}}));
  EXPECT_THAT([] { hosts_of_slurm("n[1-3]", "SLURM_STEP_NODELIST", "2(x2)", "SLURM_STEP_TASKS_PER_NODE"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("SLURM_STEP_NODELIST names 3"),
                                              HasSubstr("SLURM_STEP_TASKS_PER_NODE has tasks of 2"))));
}

TEST(HostList, HostfilesAreReadAsOpenMpiReadsThem) {
  EXPECT_EQ(
      parse_hostfile("# ours\nnode1 slots=2  # fast\n\nnode2:4\nnode3 max_slots=8\nnode1 slots=1", "hosts"),
      (std::vector<Host>{{"node1", 3}, {"node2", 4}, {"node3", 1}}));
  const struct {
    const char* text;
    const char* said;
  } wrong[] = {
      {"", "names no host"},
      {"# nothing\n", "names no host"},
      {"a\nb slots=0", "hosts:2"},
      {"a slots=x", "slots from 1"},
      {"a:99999999", "slots from 1"},
      {"a cores=2", "NAME slots=N"},
      {"-oProxyCommand=x", "the name of a host"},
  };
  for (const auto& each : wrong) {
    EXPECT_THAT([&] { parse_hostfile(each.text, "hosts"); }, ThrowsMessage<InputError>(HasSubstr(each.said)))
        << each.text;
  }
}

TEST(HostList, RanksFillHostsFromTheFront) {
  const std::vector<Host> hosts = {{"a", 2}, {"b", 3}, {"c", 1}};
  EXPECT_EQ(hosts_for(hosts, 1), (std::vector<Host>{{"a", 1}}));
  EXPECT_EQ(hosts_for(hosts, 4), (std::vector<Host>{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(host_option(hosts_for(hosts, 6)), "a:2,b:3,c:1");
  EXPECT_THAT([&] { hosts_for(hosts, 7); },
              ThrowsMessage<InputError>(HasSubstr("found 7 ranks and 6 slots")));
}

}  // namespace
}  // namespace plumbline::host_list_test
