// A fault of the machine is not stored as one of the configuration.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::matrix_faults_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MatrixFaults : public ProgramFolder {
 protected:
  MatrixFaults() { write("run.yaml", kSmallRun + std::string("steps: 1\n")); }
  std::string status() const {
    const Said said = plumbline("compare out --format json");
    return nlohmann::json::parse(said.out).at(0).at("status");
  }
};

TEST_F(MatrixFaults, AProfileIsRefusedBeforeAnythingIsStored) {
  fs::create_directories(folder_ / ".cache/plumbline");
  struct Case {
    const char* file;
    const char* arguments;
  };
  for (const Case& c :
       {Case{".cache/plumbline/profile.json", ""}, Case{"p.json", "--hardware ./p.json"},
        Case{"p.json", "--hardware ./nowhere.json"}, Case{"p.json", "--hardware h100-sxm-70gb"}}) {
    for (const char* command : {"matrix", "oom", "matrix --predict-only"}) {
      SCOPED_TRACE(std::string(command) + " " + c.arguments);
      write(c.file, "{\"name\": ");
      const Said said = plumbline(fmt::format("{} run.yaml --out out {}", command, c.arguments));
      EXPECT_EQ(said.exit_code, 2) << said.err;
      EXPECT_FALSE(fs::exists(folder_ / "out"));
      fs::remove(folder_ / c.file);
    }
  }
}

TEST_F(MatrixFaults, AFileThatComesLaterIsMeasuredWithRetry) {
  for (const char* command : {"matrix", "oom"}) {
    SCOPED_TRACE(command);
    fs::remove_all(folder_ / "out");
    fs::remove(folder_ / "tokens.bin");
    const std::string line = fmt::format("{} run.yaml --data tokens.bin --out out --quiet ", command);
    const Said missing = plumbline(line);
    EXPECT_EQ(missing.exit_code, 4) << missing.err;
    EXPECT_THAT(missing.err, HasSubstr("nothing was measured: none of 1 cells ended ok or oom"));
    EXPECT_THAT(missing.err, HasSubstr("tokens.bin"));
    EXPECT_EQ(status(), "failed");
    write("tokens.bin", std::string(16384, '\0'));
    EXPECT_EQ(plumbline(line).exit_code, 4) << "without --retry it stays";
    EXPECT_EQ(plumbline(line + "--retry").exit_code, 0);
    EXPECT_EQ(status(), "ok");
  }
}

TEST_F(MatrixFaults, AFolderThatGoesAwayIsNoFaultOfTheCell) {
  fs::create_directory(folder_ / "bin");
  write("bin/mpirun", "#!/bin/sh\nrm -rf out/cells\nPATH=${PATH#*:}\nexec mpirun \"$@\"\n");
  fs::permissions(folder_ / "bin/mpirun", fs::perms::owner_all);
  const Said said = plumbline("matrix run.yaml --out out --quiet", "PATH=$PWD/bin:$PATH;");
  EXPECT_EQ(said.exit_code, 4) << said.out << said.err;
  EXPECT_EQ(status(), "failed");
  EXPECT_EQ(plumbline("matrix run.yaml --out out --quiet --retry").exit_code, 0);
  EXPECT_EQ(status(), "ok");
}

TEST_F(MatrixFaults, WhatThisMachineHasNotIsLookedAtAgain) {
  const std::string line = "matrix run.yaml --out out --quiet --cp 2 --attention-backend unfused ";
  const Said said = plumbline(line);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("nothing was measured"));
  EXPECT_EQ(status(), "unsupported");
  EXPECT_THAT(plumbline(line + "--retry").err, HasSubstr("nothing was measured"));
}

}  // namespace
}  // namespace plumbline::matrix_faults_test
