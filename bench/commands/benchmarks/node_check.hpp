// `plumbline doctor --nodes`: every node of a job, compared with the others.
#pragma once

#include <string>

#include "bench/run/checked_node.hpp"

namespace plumbline {

struct NodeCheck {
  NodeCheckRequest request;
  std::string hostfile;
  int ranks = 0;       // 0: as many as the hosts take, or 2
  std::string config;  // empty: no cost of a step
  std::string hardware;
  std::string passing = "passing_nodes.txt";
  bool json = false;
  bool rows = false;  // of the ranks that this command starts
};

/// Starts a rank per slot of the hosts, or is one of several ranks; prints a table or JSON and writes the
/// hosts that passed. Returns the exit code: 1 when a rank failed. Throws InputError.
int check_nodes(const NodeCheck& check, bool quiet);

}  // namespace plumbline
