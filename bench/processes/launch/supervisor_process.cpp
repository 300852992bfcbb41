#include "bench/processes/launch/supervisor_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr Seconds kNoLimit{1e9};

[[noreturn]] void fail(const char* call, int error) {
  throw Error(fmt::format("cannot start mpirun: {}: {}{}", call, std::strerror(error), tight_limits()));
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
  Descriptor low_read(ends[0]);
  Descriptor low_write(ends[1]);
  // Above the numbers that the supervisor gets, so that placing one cannot overwrite another.
  Pipe made{Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 10)), Descriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, 10))};
  if (!made.read || !made.write) fail("fcntl", errno == EINVAL ? EMFILE : errno);
  return made;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// For the supervisors: this process counts from step to step.
Seconds supervised_timeout(const LaunchSpec& spec) {
  return spec.timeout_per_step ? kNoLimit : spec.timeout;
}

std::vector<std::string> merged_environment(const LaunchSpec& spec) {
  std::vector<std::pair<std::string, std::string>> added = spec.environment;
  if (spec.hosts.size() > 1) {
    const auto of_agents = agent_environment(spec.program, spec.hosts, supervised_timeout(spec));
    added.insert(added.end(), of_agents.begin(), of_agents.end());
  } else {
    const int ranks_here = spec.hosts.empty() ? spec.ranks : spec.hosts.front().slots;
    const auto binding = binding_variables(ranks_here, spec.bind_ranks);
    added.insert(added.end(), binding.begin(), binding.end());
    const auto local = local_environment();
    added.insert(added.end(), local.begin(), local.end());
  }
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = tells_a_place(name);
    for (const auto& each : added) replaced = replaced || each.first == name;
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

}  // namespace

Streams make_streams() {
  return {make_pipe(), make_pipe(), make_pipe(), make_pipe()};
}

pid_t spawn_supervisor(const LaunchSpec& spec, const Streams& streams) {
  const int ranks_here = spec.hosts.empty() ? spec.ranks : spec.hosts.front().slots;
  std::vector<std::string> arguments = {
      spec.program, kSuperviseArgument, std::to_string(ranks_here), std::to_string(spec.threads_per_rank),
      std::to_string(static_cast<long long>(supervised_timeout(spec).value * 1e3))};
  for (std::string& word :
       mpirun_command(spec.ranks, spec.program, spec.arguments, spec.bind_ranks, spec.hosts))
    arguments.push_back(std::move(word));
  std::vector<std::string> environment = merged_environment(spec);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, streams.output.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.error.write.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.control.read.get(), kControlDescriptor);
  posix_spawn_file_actions_adddup2(&actions, streams.result.write.get(), kResultDescriptor);
  // A session of its own: neither Ctrl-C nor a kill of the caller's process group reaches it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const sigset_t watched = supervisor_signals();
  posix_spawnattr_setsigmask(&attributes, &watched);  // until it watches for them: none may end it
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);

  pid_t pid = -1;
  const int error = posix_spawn(&pid, spec.program.c_str(), &actions, &attributes, pointers(arguments).data(),
                                pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail(spec.program.c_str(), error);
  return pid;
}

}  // namespace plumbline
