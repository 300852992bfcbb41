// A script for a sandbox (sandbox.hpp).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace plumbline {

struct SandboxJob {
  std::string script;  // absolute path
  /// Visible, and the current folder; what is written there is forgotten. Empty: only the script is visible.
  std::string folder{};
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> environment{};  // that of this process is not passed on
  double seconds = 10;
};

/// Limits of all processes together. A process has the same limit of address space.
inline constexpr long kSandboxBytes = 512L << 20;
inline constexpr int kSandboxProcesses = 200;

}  // namespace plumbline
