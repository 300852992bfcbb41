// A shell script run in bash where it can change nothing: own user, process, mount, network and IPC
// namespaces of Linux, files whose changes stay in memory, an empty home, no capability, limits. Programs
// that start training only write their command line down.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/launch_files/sandbox/sandbox_job.hpp"

namespace plumbline {

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

/// Returns when no process of the sandbox is left. Nothing but CPU time and memory is used outside of it.
/// Throws Error when this process is out of file descriptors or processes.
SandboxRun run_in_sandbox(const SandboxJob& job);

}  // namespace plumbline
