// Tasks that meet, and the one of them that starts the ranks.
#include "bench/processes/launch/task_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "bench/processes/hosts/store.hpp"
#include "bench/processes/hosts/store_wire.hpp"
#include "bench/processes/hosts/variables.hpp"
#include "bench/processes/launch/daemon_process.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/remote_daemon.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

using TaskClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookForEnd{200};
constexpr std::chrono::seconds kForOwnTasks{5};
constexpr Seconds kToLeave{10};  // for the others to have read how it ended
constexpr char kBetween = '\x1f';

/// Facts that a task reports about itself.
struct Task {
  std::string host;
  std::string address;
  std::string version;
  std::string work;
};

std::string text_of(const Task& task) {
  return task.host + kBetween + task.address + kBetween + task.version + kBetween + task.work;
}

Task task_from(const std::string& text, int rank) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == kBetween) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != 4) throw Error(fmt::format("task {} says what no task says", rank));
  return {parts[0], parts[1], parts[2], parts[3]};
}

std::string key_of(const char* what, int rank) {
  return fmt::format("{} {}", what, rank);
}

[[noreturn]] void refuse_without_secret(const std::string& who) {
  throw InputError(
      fmt::format("{}: missing, expected a shared secret, as tasks on several hosts ({}) start processes for "
                  "each other; export the same random text on every host",
                  kSecretVariable, who));
}

std::vector<Task> meet(const TaskLaunch& launch, const StoreServer& server, StoreClient& store) {
  std::vector<Task> tasks;
  tasks.reserve(static_cast<std::size_t>(launch.placement.size));
  const auto begun = TaskClock::now();
  const auto deadline = begun + std::chrono::duration<double>(launch.to_meet.value);
  for (int rank = 0; rank < launch.placement.size; ++rank) {
    std::optional<std::string> text;
    while (!(text = store.find(key_of("task", rank))) && TaskClock::now() < deadline) {
      // Not at once: a stranger may have come, and the tasks may all be of this host.
      const std::string refused = server.refused_host();
      if (!refused.empty() && TaskClock::now() > begun + kForOwnTasks) refuse_without_secret(refused);
      std::this_thread::sleep_for(kLookForEnd / 4);
    }
    if (!text) {
      throw Error(fmt::format(
          "task {} of {} did not come within {:.0f} s; expected {} to start all of them with the same "
          "address and {}",
          rank, launch.placement.size, launch.to_meet.value, name_of(launch.placement.launcher),
          kSecretVariable));
    }
    tasks.push_back(task_from(*text, rank));
  }
  return tasks;
}

void require_same(const std::vector<Task>& tasks) {
  const Task& first = tasks.front();
  for (std::size_t rank = 1; rank < tasks.size(); ++rank) {
    const Task& task = tasks[rank];
    const auto differ = [&](const char* what, const std::string& one, const std::string& other,
                            const char* advice) {
      throw InputError(fmt::format("{0}: found {3} in task {1} on {2}, expected {5} as in task 0 on {4}; {6}",
                                   what, rank, task.host, printable(other), first.host, printable(one),
                                   advice));
    };
    if (task.version != first.version) {
      differ("version of plumbline", first.version, task.version, "install the same on every host");
    }
    if (task.work != first.work) {
      const std::size_t at = static_cast<std::size_t>(
          std::mismatch(first.work.begin(), first.work.end(), task.work.begin(), task.work.end()).first -
          first.work.begin());
      const std::size_t line = at == 0 ? 0 : first.work.rfind('\n', at - 1) + 1;
      const auto shown = [&](const std::string& work) {
        return line >= work.size() ? std::string("nothing") : work.substr(line, work.find('\n', line) - line);
      };
      differ("configuration", shown(first.work), shown(task.work), "give every task the same");
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (tasks[other].host == task.host && tasks[other].address != task.address) {
        throw InputError(
            fmt::format("host names: found {} twice ({} and {}), expected different names; give every host a "
                        "name of its own",
                        task.host, tasks[other].address, task.address));
      }
    }
  }
}

std::vector<Host> hosts_of(const std::vector<Task>& tasks) {
  std::vector<Host> hosts;
  for (const Task& task : tasks) {
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == task.host; });
    if (known == hosts.end()) {
      hosts.push_back({task.host, 1});
    } else {
      ++known->slots;
    }
  }
  return hosts;
}

/// The exit code and, if there is a message, the reason as an Error.
int outcome_of(const LaunchResult& result) {
  if (result.ok()) return static_cast<int>(ExitCode::done);
  const bool told = result.ending == Ending::exited &&
                    result.exit_code >= static_cast<int>(ExitCode::bad_input) &&
                    result.exit_code <= static_cast<int>(ExitCode::timed_out);
  const ExitCode code = result.ending == Ending::timed_out ? ExitCode::timed_out
                        : told                             ? static_cast<ExitCode>(result.exit_code)
                                                           : ExitCode::rank_failed;
  throw Error(result.reason(), code);
}

int lead_tasks(const TaskLaunch& launch, const StoreServer& server, const std::string& secret,
               StoreClient& store) {
  const std::vector<Task> tasks = meet(launch, server, store);
  require_same(tasks);
  const std::vector<Host> hosts = hosts_of(tasks);
  if (hosts.size() > 1 && secret.empty()) refuse_without_secret(host_option(hosts));
  LaunchSpec spec = launch.spec;
  spec.for_tasks = true;
  if (hosts.size() > 1) {
    // One task of a host starts its ranks.
    for (const Host& host : hosts) {
      const auto first =
          std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.host == host.name; });
      store.set("first of " + host.name, std::to_string(first - tasks.begin()));
    }
    spec.hosts = hosts;
    const StoreAddress own = server.own_address();
    spec.environment.emplace_back(kStoreVariable, fmt::format("{}:{}", own.host, own.first_port));
  }
  spec.on_line = [](const OutputLine& line) {
    if (line.rank >= 0) say(line.text + "\n", line.error_stream ? stderr : stdout);
  };
  return outcome_of(plumbline::launch(spec));
}

/// Tells the others that have come, and gives them the time to hear it.
void end_all(int size, int code, StoreClient& store) {
  store.set("end", std::to_string(code));
  const auto deadline = TaskClock::now() + std::chrono::duration<double>(kToLeave.value);
  for (int rank = 1; rank < size; ++rank) {
    if (!store.find(key_of("task", rank))) continue;
    while (!store.find(key_of("left", rank)) && TaskClock::now() < deadline)
      std::this_thread::sleep_for(kLookForEnd / 4);
  }
}

/// This program as the supervisor of the daemon that rank 0 orders: nothing else can be ordered.
std::vector<std::string> daemon_command(const std::string& text) {
  const auto words = unpack_texts(text);
  if (!words)
    throw Error("order to start a daemon: found no list of words, expected one of the same version");
  std::vector<std::string> command = words_of(order_of(*words));
  command.insert(command.begin(), {self_path(), kDaemonArgument});
  return command;
}

int follow(int rank, bool trusted, StoreClient& store) {
  const std::string host = this_host();
  std::unique_ptr<DaemonProcess> daemon;
  bool told = false;
  for (;;) {
    if (const auto end = store.find("end")) {
      daemon.reset();
      store.set(key_of("left", rank), "");
      return std::atoi(end->c_str());
    }
    const auto chosen = trusted ? store.find("first of " + host) : std::nullopt;
    if (chosen && *chosen == std::to_string(rank)) {
      if (!daemon && !told) {
        if (const auto order = store.find("start " + host)) {
          store.set_at_end("ended " + host, "1");
          daemon = std::make_unique<DaemonProcess>(daemon_command(*order));
        }
      } else if (!told) {
        if (store.find("stop " + host)) daemon->let_go();
        if (const auto code = daemon->ended()) {
          store.set("ended " + host, std::to_string(*code));
          told = true;
        }
      }
    }
    std::this_thread::sleep_for(kLookForEnd);
  }
}

}  // namespace

int launch_from_tasks(const TaskLaunch& launch) {
  const Placement& placement = launch.placement;
  const std::string launcher(name_of(placement.launcher));
  if (placement.address.empty() || placement.port == 0) {
    throw InputError(
        fmt::format("{}: found rank {} of {} without the address of rank 0, expected MASTER_ADDR and "
                    "MASTER_PORT; set them, or use mpirun -n {} plumbline ..., or srun --mpi=pmix",
                    launcher, placement.rank, placement.size, placement.size));
  }
  const std::string secret = process_variables()(kSecretVariable).value_or("");
  const StoreAddress address{placement.address, placement.port};
  std::unique_ptr<StoreServer> server;
  if (placement.rank == 0) {
    server =
        std::make_unique<StoreServer>(address, secret, process_variables()(kListenVariable).value_or(""));
  }
  StoreClient store(server ? server->own_address() : address, secret, launch.to_meet);
  store.set(key_of("task", placement.rank),
            text_of({this_host(), store.own_address(), launch.version, launch.work}));
  if (placement.rank > 0) {
    try {
      return follow(placement.rank, !secret.empty(), store);
    } catch (const Error& error) {
      throw Error(fmt::format("task {}: {}", placement.rank, error.what()));
    }
  }
  try {
    const int code = lead_tasks(launch, *server, secret, store);
    end_all(placement.size, code, store);
    return code;
  } catch (const Error& error) {
    end_all(placement.size, static_cast<int>(error.code()), store);
    throw;
  }
}

}  // namespace plumbline
