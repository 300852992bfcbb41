// A folder of a test's own, in which the program runs as a script runs it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace plumbline {

class ProgramFolder : public testing::Test {
 protected:
  struct Said {
    int exit_code = -1;  // 1000 + signal when one ended it
    std::string out, err;
  };

  ProgramFolder();
  ~ProgramFolder() override;

  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  /// Settings of the shell for every command: HOME lies in the folder, where no calibrated profile is found,
  /// temporary files in its tmp.
  std::string environment() const;
  /// Output of `plumbline ARGUMENTS`; standard output and error stay in out.txt and err.txt unless the
  /// arguments send them elsewhere. `before`: a line of shell in front of it, ended by a semicolon.
  Said plumbline(const std::string& arguments, const std::string& before = "") const;

  std::filesystem::path folder_;
};

}  // namespace plumbline
