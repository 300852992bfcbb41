// A shell script run in bash where it can change nothing: own user, process, mount, network and IPC
// namespaces of Linux, a read-only file system, an empty home, no capability, limits. Programs that start
// training only write their command line down.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace plumbline {

struct SandboxJob {
  std::string script;  // absolute path
  /// Visible, read-only, and the current folder; empty: only the script is visible.
  std::string folder{};
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> environment{};  // that of this process is not passed on
  double seconds = 10;
};

/// A program that was not run.
struct SandboxCommand {
  std::vector<std::string> words;  // the first: the program's name without its folder
  std::map<std::string, std::string> environment;
};

struct SandboxRun {
  std::string unavailable;  // the reason why this machine makes no sandbox; empty: the script was started
  std::string limit;        // that ended it, "512 MiB of memory"; empty: none
  int status = 0;           // exit status, or 128 + signal
  std::string complaint;    // its last line on standard error
  std::vector<SandboxCommand> commands;  // in order
};

/// Limits of all processes together. A process has the same limit of address space.
inline constexpr long kSandboxBytes = 512L << 20;
inline constexpr int kSandboxProcesses = 200;

/// Returns when no process of the sandbox is left. Nothing but CPU time and memory is used outside of it.
/// Throws Error when this process is out of file descriptors or processes.
SandboxRun run_in_sandbox(const SandboxJob& job);

}  // namespace plumbline
