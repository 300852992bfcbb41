// `plumbline schedule` and `plumbline simulate`: what they print and refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;

/// What the command prints.
std::string run(const std::string& arguments) {
  CLI::App app("test", "plumbline");
  app.require_subcommand(1);
  CommandAction action;
  add_schedule_command(app, action);
  add_simulate_command(app, action);
  app.parse(arguments);
  testing::internal::CaptureStdout();
  try {
    action();
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

class ScheduleCommands : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    write("costs.json",
          R"({"stages":[{"forward_us":100,"backward_us":200}],"p2p_us":5,"step_overhead_us":10})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  static std::string read(const std::string& name) {
    std::ifstream file(name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("plumbline_schedule_" + std::to_string(::getpid()));
};

TEST_F(ScheduleCommands, PrintsEveryFormat) {
  EXPECT_THAT(run("schedule 1f1b --pp 2 --microbatches 2"), HasSubstr("rank 1: 1F0 1B0 1F1 1B1"));
  EXPECT_EQ(run("schedule 1f1b --pp 2 --microbatches 2 --format csv"), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(run("schedule gpipe --pp 2 --microbatches 1 --transfers --format csv"),
              HasSubstr("0F0,0SEND_F0"));
  EXPECT_EQ(parse_schedule_json(run("schedule zb-v --pp 2 --microbatches 4 --format json"), "x").stages, 4);
  EXPECT_THAT(run("schedule zb-v --pp 2 --microbatches 4 --format svg"), HasSubstr("</svg>"));
  EXPECT_TRUE(nlohmann::json::accept(run("schedule zb-v --pp 2 --microbatches 4 --format trace")));
}

TEST_F(ScheduleCommands, ComparesSchedules) {
  const std::string table = run("schedule 1f1b --pp 4 --microbatches 8 --compare zb-h1,dualpipe,zb-h2");
  EXPECT_THAT(table, HasSubstr("37.50 %"));
  EXPECT_THAT(table, HasSubstr("12.50 %"));
  EXPECT_THAT(run("schedule 1f1b --pp 4 --microbatches 5 --compare zb-h2"),
              HasSubstr("expected at least 2P-1 = 7"));
  EXPECT_THAT(
      run("simulate --schedule 1f1b --pp 4 --microbatches 8 --compare zb-v --costs " + path("costs.json")),
      HasSubstr("zb-v"));
}

TEST_F(ScheduleCommands, SimulatesNamesAndFiles) {
  write("s.csv", run("schedule 1f1b --pp 4 --microbatches 8 --transfers --format csv"));
  const std::string by_name =
      run("simulate --schedule 1f1b --pp 4 --microbatches 8 --json --costs " + path("costs.json"));
  const auto json = nlohmann::json::parse(by_name);
  // (M + P - 1)(f + b) and a message each time the chain changes ranks, plus the overhead.
  EXPECT_NEAR(json["makespan_us"].get<double>(), 3390, 1e-6);
  ASSERT_EQ(json["ranks"].size(), 4U);
  EXPECT_NEAR(json["ranks"][0]["busy_us"].get<double>(), 2400, 1e-6);
  EXPECT_NEAR(json["ranks"][0]["idle_us"].get<double>(), 980, 1e-6);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["peak_in_flight"].get<double>(), 4);
  const auto from_file =
      nlohmann::json::parse(run("simulate " + path("s.csv") + " --json --costs " + path("costs.json")));
  EXPECT_GE(from_file["makespan_us"].get<double>(), 3390 - 1e-6);
  run("simulate " + path("s.csv") + " --costs " + path("costs.json") + " --svg " + path("x.svg") +
      " --trace " + path("x.json"));
  EXPECT_THAT(read(path("x.svg")), HasSubstr("<svg"));
  EXPECT_TRUE(nlohmann::json::accept(read(path("x.json"))));
}

TEST_F(ScheduleCommands, UsesTheCostsForSchedulesMadeFromThem) {
  write("zb.json",
        R"({"stages":[{"forward_us":10,"backward_input_us":10,"backward_weight_us":5}],"p2p_us":1})");
  const auto makespan = [&](const std::string& options) {
    const std::string text = run("simulate --schedule zb-auto --pp 4 --microbatches 16 --json --costs " +
                                 path("zb.json") + " " + options);
    return nlohmann::json::parse(text)["bubble_fraction_without_barrier"].get<double>();
  };
  EXPECT_LT(makespan("--memory-limit 8"), makespan("--memory-limit 4"));
}

TEST_F(ScheduleCommands, RefusesInOneLine) {
  write("bad.csv", "0F0,0Q0\n");
  write("hole.csv", "0F0,0B0\n1F0\n");
  const std::pair<std::string, std::string> cases[] = {
      {"schedule 2f1b --pp 2 --microbatches 2", "did you mean 1f1b"},
      {"schedule " + path("bad.csv"), "row 1, column 2"},
      {"schedule " + path("hole.csv"), "1B0 is missing"},
      {"schedule " + path("none.csv"), "none.csv"},
      {"simulate --costs " + path("costs.json"), "expected either"},
      {"simulate --schedule zb-h1 --pp 2 --microbatches 2 --costs " + path("none.json"), "none.json"},
      {"simulate --schedule vocab-1 --pp 2 --microbatches 2 --costs " + path("costs.json"),
       "vocab_forward_us"},
      {"simulate --schedule 1f1b --pp 2 --microbatches 2 --svg /nowhere/x.svg --costs " + path("costs.json"),
       "cannot be written"},
  };
  for (const auto& [arguments, says] : cases) {
    try {
      run(arguments);
      ADD_FAILURE() << arguments;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(says)) << arguments;
    }
  }
}

}  // namespace
}  // namespace plumbline
