// The exceptions of plumbline. Each carries one line (what was found, what was expected, what to change), and
// the exit code of the process that it ends.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/one_line.hpp"

namespace plumbline {

/// Exit codes of the `plumbline` program; scripts rely on the numbers.
enum class ExitCode : int {
  done = 0,
  regressed = 1,  // `compare BASE NEW` found a loss, `convert --check` a difference
  bad_input = 2,
  does_not_fit = 3,
  rank_failed = 4,
  timed_out = 5,
};

class Error : public std::runtime_error {
 public:
  /// Text of libraries, files and users may have several lines or hold escapes; it becomes one line here.
  explicit Error(const std::string& text, ExitCode code = ExitCode::rank_failed, std::string drawing = "")
      : std::runtime_error(one_line(text)), code_(code), drawing_(std::move(drawing)) {}
  ExitCode code() const { return code_; }
  /// Whole lines that show the place of the fault, to be printed below the line; mostly empty.
  const std::string& drawing() const { return drawing_; }

 private:
  ExitCode code_;
  std::string drawing_;
};

/// Bad usage, configuration or input file: nothing has been started or written.
class InputError : public Error {
 public:
  explicit InputError(const std::string& text, std::string drawing = "")
      : Error(text, ExitCode::bad_input, std::move(drawing)) {}
};

/// A rank went over its memory budget, or a configuration cannot fit.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& text) : Error(text, ExitCode::does_not_fit) {}
};

}  // namespace plumbline
