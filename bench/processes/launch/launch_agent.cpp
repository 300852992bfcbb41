// Start of mpirun's daemon on another host by a command (ssh, srun).
#include "bench/processes/launch/launch_agent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/hosts/variables.hpp"
#include "bench/processes/launch/daemon_process.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/remote_daemon.hpp"
#include "core/base/error.hpp"
#include "core/base/shell_word.hpp"

namespace plumbline {
namespace {

/// Ranks that the launch has on this host.
int slots_on(const std::string& host) {
  std::string lines = process_variables()(kHostsVariable).value_or("");
  std::replace(lines.begin(), lines.end(), ',', '\n');
  for (const Host& each : parse_hostfile(lines, kHostsVariable)) {
    if (each.name == host) return each.slots;
  }
  throw Error(fmt::format("{} has no host {}", kHostsVariable, host));
}

}  // namespace

std::vector<std::string> agent_command(const std::string& agent, const std::string& host,
                                       const std::vector<std::string>& remote) {
  std::vector<std::string> words;
  bool placed = false;
  for (std::size_t at = agent.find_first_not_of(' '); at != std::string::npos;) {
    const std::size_t end = std::min(agent.find(' ', at), agent.size());
    std::string word = agent.substr(at, end - at);
    if (const std::size_t mark = word.find("{host}"); mark != std::string::npos) {
      word.replace(mark, 6, host);
      placed = true;
    }
    words.push_back(std::move(word));
    at = agent.find_first_not_of(' ', end);
  }
  if (placed) {
    words.insert(words.end(), remote.begin(), remote.end());
    return words;
  }
  std::string line;
  for (const std::string& word : remote) line += (line.empty() ? "" : " ") + shell_word(word);
  words.insert(words.end(), {host, line});
  return words;
}

int act_as_agent(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const std::string host = argv[2];
    const std::string threads = process_variables()("OMP_NUM_THREADS").value_or("1");
    const std::string limit = process_variables()(kLimitVariable).value_or("300000");
    std::vector<std::string> words = daemon_arguments({argv + 3, argv + argc});
    words.insert(words.begin(), {std::to_string(slots_on(host)), threads, limit});
    words.insert(words.begin(), {self_path(), kDaemonArgument});
    DaemonProcess daemon(
        agent_command(process_variables()(kLaunchAgentVariable).value_or("ssh"), host, words));
    return daemon.wait();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace plumbline
