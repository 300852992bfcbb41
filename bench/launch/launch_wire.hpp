// What a launching process and its supervisor say to each other.
#pragma once

#include <cstdint>

namespace plumbline {

/// First argument of a process that is to supervise; then the numbers below, then the command.
inline constexpr const char* kSuperviseArgument = "--plumbline-supervise";
/// Set for mpirun and its ranks: mpirun's process id.
inline constexpr const char* kLauncherVariable = "PLUMBLINE_LAUNCHER_PID";

/// The supervisor's descriptors, the same numbers in every supervisor.
inline constexpr int kControlDescriptor = 3;  // readable, at its end when the caller is gone or wants a stop
inline constexpr int kResultDescriptor = 4;   // takes one LaunchReport

enum class ReportKind : std::int32_t { not_started, ended, timed_out, stopped };

/// The supervisor's one answer.
struct LaunchReport {
  ReportKind kind = ReportKind::not_started;
  std::int32_t value = 0;  // errno when not started, else the wait status of mpirun
};

}  // namespace plumbline
