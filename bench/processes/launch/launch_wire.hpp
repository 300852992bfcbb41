// Messages between a launching process and its supervisor.
#pragma once

#include <signal.h>

#include <cstdint>

namespace plumbline {

/// First argument of a process that is to supervise; then the numbers below, then the command.
inline constexpr const char* kSuperviseArgument = "--plumbline-supervise";
/// First argument of a process that supervises a daemon of mpirun on another host until its standard input
/// ends. The words of an order (remote_daemon.hpp) follow it.
inline constexpr const char* kDaemonArgument = "--plumbline-daemon";
/// First argument of a process that mpirun starts in place of ssh; then the host and the words of a command.
inline constexpr const char* kAgentArgument = "--plumbline-agent";
/// "a:2,b:2": the hosts of a launch with their ranks, for its agents.
inline constexpr const char* kHostsVariable = "PLUMBLINE_HOSTS";
/// Milliseconds that a launch may take: if the network is cut its end goes unnoticed.
inline constexpr const char* kLimitVariable = "PLUMBLINE_LIMIT_MS";
/// Words that start a command on another host; "{host}" among them stands for it (launch_agent.hpp).
/// Default: ssh, and srun within a job of Slurm.
inline constexpr const char* kLaunchAgentVariable = "PLUMBLINE_LAUNCH_AGENT";
/// Set for mpirun and its ranks: "PID@FOLDER", mpirun's process id and the run's folder, which is their
/// TMPDIR. Both together prove that the variable is not a leftover of a user's shell.
inline constexpr const char* kLauncherVariable = "PLUMBLINE_LAUNCHER_PID";

/// The supervisor's descriptors, the same numbers in every supervisor.
inline constexpr int kControlDescriptor = 3;  // readable, at its end when the caller is gone or wants a stop
inline constexpr int kResultDescriptor = 4;   // takes one LaunchReport

/// Signals that the supervisor waits for. Blocked from its first instruction on, so that a request to end is
/// never its death.
inline sigset_t supervisor_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

enum class ReportKind : std::int32_t {
  refused,      // before mpirun; the supervisor has printed why
  not_started,  // mpirun cannot be executed
  ended,
  timed_out,
  stopped
};

/// The supervisor's one answer.
struct LaunchReport {
  ReportKind kind = ReportKind::refused;
  std::int32_t value = 0;  // errno when not started, else the wait status of mpirun
};

}  // namespace plumbline
