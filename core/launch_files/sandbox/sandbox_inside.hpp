// The child process's side of a sandbox (sandbox.hpp). It runs between fork() and exec().
#pragma once

#include <string>

#include "core/launch_files/sandbox/sandbox_job.hpp"

namespace plumbline {

inline constexpr const char* kSandboxRecord = "/plumbline/record/commands";
inline constexpr const char* kSandboxFunctions = "/plumbline/functions";  // of every bash
inline constexpr const char* kSandboxPath = "/plumbline/programs:/usr/local/bin:/usr/bin:/bin";
inline constexpr const char* kSandboxHome = "/tmp/home";
inline constexpr long kMostRecorded = 1 << 20;  // bytes

/// Ends of the pipes to the parent.
struct SandboxPipes {
  int report = -1;      // the outcome's first letter, then its text: see sandbox.cpp
  int complaints = -1;  // standard error
  int life = -1;        // at its end once the parent closes or dies
};

/// A system call that failed, by the name of what it is for.
struct SandboxFailure {
  std::string what;
};
/// Throws SandboxFailure with errno's text if `result` is negative.
void require_call(long result, const std::string& what);

/// Makes namespaces, runs the script in them, and ends when nothing is left there.
[[noreturn]] void enter_sandbox(const SandboxJob& job, const SandboxPipes& pipes, int parent);

/// Replaces the root of this mount namespace by one with system programs, read-only, the job's files, and
/// stubs of the programs that are not run.
void build_sandbox_root(const SandboxJob& job);

/// Takes capabilities and system calls from this process that could reach out of the namespaces, and limits
/// what it may use. Returns the file on which a supervisor answers each new process (seccomp_unotify(2)):
/// the limit of processes counts for root, too, for whom RLIMIT_NPROC does not.
int confine_process();

}  // namespace plumbline
