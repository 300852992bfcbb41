// `plumbline doctor --hosts`: the groups of a configuration on the real hosts, beside their predictions.
#pragma once

#include <string>

namespace plumbline {

struct HostCheck {
  std::string hostfile;
  std::string config;
  std::string backend = "cpu";
  std::string hardware;  // empty: as for bench
  bool json = false;
};

/// One all-reduce, one all-gather and, in the pipeline, one message of every group of the configuration, all
/// groups of a kind at once; prints rates beside predicted ones. Returns the exit code: 1 when a time is off
/// by more than 30 % or elements were wrong. Throws InputError without a group of two ranks.
int check_hosts(const HostCheck& check, bool quiet);

}  // namespace plumbline
