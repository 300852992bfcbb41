// The exceptions of plumbline. Each carries one line (what was found, what was expected, what to change) and
// the exit code of the process that it ends.
#pragma once

#include <stdexcept>
#include <string>

namespace plumbline {

/// Exit codes of the `plumbline` program; scripts rely on the numbers.
enum class ExitCode : int {
  done = 0,
  regressed = 1,  // `compare BASE NEW` found a loss
  bad_input = 2,
  does_not_fit = 3,
  rank_failed = 4,
  timed_out = 5,
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line, ExitCode code = ExitCode::rank_failed)
      : std::runtime_error(line), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Bad usage, configuration or input file: nothing has been started or written.
class InputError : public Error {
 public:
  explicit InputError(const std::string& line) : Error(line, ExitCode::bad_input) {}
};

/// A rank went over its memory budget, or a configuration cannot fit.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& line) : Error(line, ExitCode::does_not_fit) {}
};

}  // namespace plumbline
