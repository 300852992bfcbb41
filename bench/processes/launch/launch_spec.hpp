// The program and the ranks that a launch starts.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/launch/launch_result.hpp"
#include "core/base/units.hpp"

namespace plumbline {

struct LaunchSpec {
  std::string program;  // calls launch_entry(); usually self_path()
  std::vector<std::string> arguments;
  int ranks = 1;
  Seconds timeout{300};
  bool timeout_per_step = false;  // counted from every step that a rank reports (step_of())
  Seconds abort_grace{20};        // for mpirun to end once it has said that a rank failed
  std::vector<Host> hosts;        // that ranks fill in this order, this one first; empty: this one takes all
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's own
  int threads_per_rank = 1;                                      // OMP_NUM_THREADS
  bool bind_ranks = true;                          // false: ranks have threads that spin, and bind themselves
  std::size_t kept_output = 131072;                // bytes per stream; of longer output the middle is dropped
  std::function<void(const OutputLine&)> on_line;  // optional, called as lines come
  std::function<bool()>
      on_tick;  // optional, called every `tick`, and whenever something was said; false stops the run
  Seconds tick{0.1};
};

}  // namespace plumbline
