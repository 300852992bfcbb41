// Launches of fake_ranks, children and changed variables that the tests of this folder share.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/processes/launch/launch.hpp"

namespace plumbline::test {

/// Two ranks of fake_ranks with these words.
LaunchSpec fake(std::vector<std::string> arguments, double timeout_s = 300);

/// An environment variable with another value for a while.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Exit code of a child that does `work`, whose result it is.
inline int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Becomes a silent runner of fake_ranks with these words.
int become_runner(const char* first, const char* second = nullptr);

}  // namespace plumbline::test
