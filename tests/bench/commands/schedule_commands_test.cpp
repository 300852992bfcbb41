// `plumbline schedule` and `plumbline simulate`: output and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/validate/validate.hpp"

namespace plumbline::schedule_commands_test {
namespace {

using testing::HasSubstr;

/// Output of the command.
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

/// A comparison is a table, CSV or JSON; a picture, trace or timeline is not left out without a word.
TEST_F(ScheduleCommands, ComparisonsRefusePictures) {
  const std::string simulated =
      "simulate --schedule 1f1b --pp 4 --microbatches 5 --compare zb-h1 --costs " + path("costs.json");
  EXPECT_EQ(nlohmann::json::parse(run(simulated + " --json")).size(), 2U);
  for (const std::string& refused :
       {std::string("schedule 1f1b --pp 4 --microbatches 5 --compare zb-h1 --format svg"),
        simulated + " --svg " + path("x.svg"), simulated + " --trace " + path("x.json"),
        simulated + " --timeline"}) {
    EXPECT_ANY_THROW(run(refused)) << refused;
  }
  EXPECT_FALSE(std::filesystem::exists(path("x.svg")) || std::filesystem::exists(path("x.json")));
}

/// `key` in simulate's output for these arguments.
double simulated(const std::string& arguments, const char* key) {
  return nlohmann::json::parse(run("simulate " + arguments + " --json"))[key].get<double>();
}

TEST_F(ScheduleCommands, ComparesAFileWithSchedulesOfItsSizes) {
  write("s.csv", run("schedule 1f1b --pp 4 --microbatches 8 --format csv"));
  const std::string of_schedules = run("schedule 1f1b --pp 4 --microbatches 8 --compare zb-v");
  const std::string rows = of_schedules.substr(of_schedules.find("\n1f1b"),
                                               of_schedules.find("ratio:") - of_schedules.find("\n1f1b"));
  for (const std::string& arguments :
       {path("s.csv") + " --compare 1f1b,zb-v", "1f1b --compare zb-v," + path("s.csv"),
        path("s.csv") + " --pp 4 --microbatches 8 --compare 1f1b,zb-v"}) {
    const std::string table = run("schedule " + arguments);
    EXPECT_THAT(table, HasSubstr(rows.substr(0, rows.find('\n', 1)))) << arguments;
    EXPECT_THAT(table, HasSubstr(rows.substr(rows.find('\n', 1)))) << arguments;
  }
  write("other.csv", run("schedule 1f1b --pp 2 --microbatches 8 --format csv"));
  write("fewer.csv", run("schedule 1f1b --pp 4 --microbatches 6 --format csv"));
  for (const auto& [arguments, message] : std::map<std::string, std::string>{
           {path("s.csv") + " --compare " + path("other.csv"), "found 2 ranks, expected 4 as "},
           {path("s.csv") + " --compare " + path("fewer.csv"), "found 6 micro-batches, expected 8 as "},
           {path("s.csv") + " --pp 8 --compare zb-v", "found 4 ranks, expected 8 as --pp"}}) {
    try {
      run("schedule " + arguments);
      ADD_FAILURE() << arguments;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

/// A schedule takes as long in a comparison as alone, and others have the same model in stages of theirs.
TEST_F(ScheduleCommands, ComparedSchedulesHaveTheModelOfTheFirst) {
  write("costs.json", R"({"stages":[{"forward_us":100,"backward_us":200}]})");
  for (const char* first : {"1f1b", "zb-v", "interleaved"}) {
    const std::string arguments =
        std::string("--schedule ") + first + " --pp 4 --microbatches 8 --costs " + path("costs.json");
    const double alone = simulated(arguments, "makespan_us");
    const std::string table = run("simulate " + arguments + " --compare gpipe");
    EXPECT_THAT(table, HasSubstr(fmt::format("{:<16} {:>12.6g}", first, alone * 1e-6))) << first;
    // (M + P - 1)(f + b) of a rank's layers.
    const double rank = std::string(first) == "1f1b" ? 300e-6 : 600e-6;
    EXPECT_THAT(table, HasSubstr(fmt::format("{:<16} {:>12.6g}", "gpipe", 11 * rank))) << first;
    EXPECT_THAT(table, HasSubstr(fmt::format("the {} stages of {}", rank > 400e-6 ? 8 : 4, first)));
  }
}

/// Made by PyTorch 2.15's _add_send_recv and _add_wait_send: a RECV stands where its SEND is posted, long
/// before its use.
constexpr const char* kComputeComms[] = {
    "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0WAIT_SEND_F0,0F3,0SEND_F3,0RECV_B1,0B1,"
    "0WAIT_SEND_F1,0RECV_B2,0B2,0WAIT_SEND_F2,0RECV_B3,0B3,0WAIT_SEND_F3\r\n"
    "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1RECV_F2,1B0,1WAIT_SEND_F0,1SEND_B0,1F2,1SEND_F2,"
    "1RECV_B1,1RECV_F3,1B1,1WAIT_SEND_F1,1SEND_B1,1F3,1SEND_F3,1RECV_B2,1B2,1WAIT_SEND_F2,1SEND_B2,1RECV_B3,"
    "1B3,1WAIT_SEND_F3,1SEND_B3,1WAIT_SEND_B0,1WAIT_SEND_B1,1WAIT_SEND_B2,1WAIT_SEND_B3\r\n"
    "2RECV_F0,2F0,2RECV_F1,2B0,2SEND_B0,2F1,2RECV_F2,2B1,2SEND_B1,2F2,2RECV_F3,2B2,2SEND_B2,2F3,2B3,2SEND_B3,"
    "2WAIT_SEND_B0,2WAIT_SEND_B1,2WAIT_SEND_B2,2WAIT_SEND_B3\r\n",
    "0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,0F2,0SEND_F2,2B0,"
    "2WAIT_SEND_F0,2SEND_B0,2RECV_B1,0F3,0SEND_F3,2RECV_F2,2B1,2WAIT_SEND_F1,2SEND_B1,0RECV_B0,2F2,2SEND_F2,"
    "2RECV_F3,0B0,0WAIT_SEND_F0,0RECV_B1,2F3,2SEND_F3,0B1,0WAIT_SEND_F1,2RECV_B2,2B2,2WAIT_SEND_F2,2SEND_B2,"
    "2RECV_B3,2B3,2WAIT_SEND_F3,2SEND_B3,0RECV_B2,0B2,0WAIT_SEND_F2,0RECV_B3,0B3,0WAIT_SEND_F3,2WAIT_SEND_B0,"
    "2WAIT_SEND_B1,2WAIT_SEND_B2,2WAIT_SEND_B3\r\n"
    "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,1RECV_F2,3F1,1RECV_B0,"
    "3B1,"
    "3SEND_B1,1RECV_F3,1F2,1SEND_F2,1RECV_B1,1B0,1WAIT_SEND_F0,1SEND_B0,3RECV_F2,1F3,1SEND_F3,1B1,"
    "1WAIT_SEND_F1,1SEND_B1,3RECV_F3,3F2,3B2,3SEND_B2,1RECV_B2,3F3,3B3,3SEND_B3,1RECV_B3,1B2,1WAIT_SEND_F2,"
    "1SEND_B2,1B3,1WAIT_SEND_F3,1SEND_B3,3WAIT_SEND_B0,3WAIT_SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1,"
    "3WAIT_SEND_B2,3WAIT_SEND_B3,1WAIT_SEND_B2,1WAIT_SEND_B3\r\n"};

TEST_F(ScheduleCommands, MessagesOfPyTorchsComputeCommsReturnAtOnce) {
  for (std::size_t i = 0; i < std::size(kComputeComms); ++i) {
    const std::string name = i == 0 ? "1f1b --pp 3" : "interleaved --pp 2";
    write("comms.csv", kComputeComms[i]);
    const std::string costs = " --costs " + path("costs.json");
    for (const char* key : {"makespan_us", "bubble_fraction"}) {
      EXPECT_DOUBLE_EQ(simulated(path("comms.csv") + costs, key),
                       simulated("--schedule " + name + " --microbatches 4" + costs, key))
          << name << ' ' << key;
    }
    const std::string table = run("schedule " + path("comms.csv") + " --compare 1f1b,interleaved");
    const auto row = [&](const std::string& start) {
      const std::size_t at = table.find('\n' + start + ' ') + 1 + start.size();
      return table.substr(at, table.find('\n', at) - at);
    };
    const std::string found = row(path("comms.csv"));
    const std::string expected = row(i == 0 ? "1f1b" : "interleaved");
    EXPECT_EQ(found.substr(found.find_first_not_of(' ')), expected.substr(expected.find_first_not_of(' ')));
    // Printed unchanged, transfers included.
    EXPECT_THAT(run("schedule " + path("comms.csv") + " --format csv"), HasSubstr("0F0,0SEND_F0,"));
  }
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
      {"schedule 2f1b --pp 2 --microbatches 2", "expected one such as 1f1b"},
      {"schedule " + path("bad.csv"), "row 1, column 2"},
      {"schedule " + path("hole.csv"), "1B0 is missing"},
      {"schedule " + path("none.csv"), "none.csv"},
      {"simulate --costs " + path("costs.json"), "expected either"},
      {"simulate --schedule zb-h1 --pp 2 --microbatches 2 --costs " + path("none.json"), "none.json"},
      {"simulate --schedule vocab-1 --pp 2 --microbatches 2 --costs " + path("costs.json"),
       "vocab_forward_us"},
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
}  // namespace plumbline::schedule_commands_test
