// `plumbline doctor --nodes` as a script sees it; ranks of this machine stand for nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/processes/hosts/host_list.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::node_check_test {
namespace {

using testing::HasSubstr;

const std::string kQuick = " --time-limit 0.05";

class NodeCheckCommand : public ProgramFolder {};

TEST_F(NodeCheckCommand, NamesTheSlowRankAndItsCost) {
  constexpr double kNear = 0.3;
  nlohmann::json json;
  double factor = 0;
  // Other programs slow this machine, too: one of three attempts has the factor.
  for (int attempt = 0; attempt < 3 && std::abs(factor - 2) > kNear; ++attempt) {
    const Said said = plumbline(
        "doctor --nodes --json --slow-rank 1 --slow-factor 2 --config llama-3.1-8b --hardware "
        "h100-sxm-80gb" +
        kQuick);
    ASSERT_EQ(said.exit_code, 1) << said.err;
    json = nlohmann::json::parse(said.out);
    factor = json["slowest"]["factor"].get<double>();
  }
  EXPECT_NEAR(factor, 2, kNear);
  EXPECT_EQ(json["failed"], nlohmann::json::array({1}));
  EXPECT_EQ(json["slowest"]["rank"], 1);
  EXPECT_THAT(json["ranks"][1]["reasons"][0].get<std::string>(), HasSubstr("product: "));
  EXPECT_GT(json["step"]["slowed_s"], 1.2 * json["step"]["quiet_s"].get<double>());
  EXPECT_EQ(read("passing_nodes.txt"), "");  // both ranks are on one host
}

TEST_F(NodeCheckCommand, IsARankUnderMpirun) {
  const std::string command = "cd " + folder_.string() + " && " + environment() +
                              " mpirun --allow-run-as-root --oversubscribe -n 2 " PLUMBLINE_PROGRAM
                              " doctor --nodes --passing good.txt" +
                              kQuick + " > ranks.txt 2> ranks.err";
  const int status = std::system(command.c_str());
  EXPECT_THAT(read("ranks.txt"), HasSubstr(" of 2 ranks passed; slowest: rank ")) << read("ranks.err");
  EXPECT_EQ(read("good.txt"), status == 0 ? this_host() + " slots=2\n" : "");
}

TEST_F(NodeCheckCommand, RefusesWhatItCannotDo) {
  write("run.yaml", kSmallRun);
  const std::pair<const char*, const char*> cases[] = {
      {"doctor --ranks 2", "--ranks: found it without --nodes"},
      {"doctor --passing a.txt", "--passing: found it without --nodes"},
      {"doctor --config run.yaml", "--config: found it without --hosts or --nodes"},
      {"doctor --hosts hosts", "--hosts: found it without --config"},
      {"doctor --nodes --hosts nowhere", "nowhere"},
      {"doctor --nodes --hardware h100", "--hardware: found it without --config"},
      {"doctor --nodes --config run.yaml", "hardware: found nothing"},
      {"doctor --nodes --passing nowhere/a.txt", "--passing"},
      {"doctor --nodes --backend cuda", "found cuda"},
  };
  for (const auto& [arguments, message] : cases) {
    const Said said = plumbline(arguments);
    EXPECT_NE(said.exit_code, 0) << arguments;
    EXPECT_THAT(said.err, HasSubstr(message)) << arguments;
  }
}

}  // namespace
}  // namespace plumbline::node_check_test
