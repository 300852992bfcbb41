// `plumbline ask` as a program of a pipe: one line out for every line in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::ask_command_test {
namespace {

using testing::HasSubstr;

class AskCommand : public ProgramFolder {
 protected:
  std::vector<nlohmann::json> replies_to(const std::string& requests) {
    write("in.jsonl", requests);
    const Said said = plumbline("ask < in.jsonl");
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    std::vector<nlohmann::json> replies;
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) replies.push_back(nlohmann::json::parse(line));
    return replies;
  }
};

TEST_F(AskCommand, EveryLineHasItsReplyInOrder) {
  const std::string legal =
      R"({"ask":"legality","id":1,"keys":{"model":"gpt2-124m","hardware":"h100","gbs":8}})";
  const std::string requests = legal + "\n" + std::string(10'000'000, 'x') + "\n\n\xff\n" + legal + "\r\n" +
                               std::string("{\0}\n", 4) + legal;
  const std::vector<nlohmann::json> replies = replies_to(requests);
  ASSERT_EQ(replies.size(), 7U);
  for (const std::size_t i : {0U, 4U, 6U}) EXPECT_EQ(replies[i].value("legal", false), true) << i;
  EXPECT_THAT(replies[1].at("error").get<std::string>(), HasSubstr("10000000 bytes"));
  for (const std::size_t i : {2U, 3U, 5U}) EXPECT_TRUE(replies[i].contains("error")) << i;
}

TEST_F(AskCommand, NoInputIsNoReply) {
  EXPECT_EQ(replies_to("").size(), 0U);
}

// The line that cancels arrives while the search runs; every line has its reply, in order.
TEST_F(AskCommand, ALaterLineCancelsASearch) {
  const std::string search =
      R"("keys":{"model":"llama-3.1-405b","hardware":"h100","gpus":16384,"gbs":2048,"precision":"bf16"}})";
  const std::vector<nlohmann::json> replies =
      replies_to(R"({"ask":"search","id":12345678901234567890123,"threads":1,)" + search + "\n" +
                 R"({"ask":"legality","id":2,"keys":{"model":"gpt2-124m","hardware":"h100","gbs":8}})" +
                 "\n" + R"({"ask":"cancel","id":3,"cancel":12345678901234567890123})" + "\n" +
                 R"({"ask":"cancel","id":4,"cancel":12345678901234567890124})" + "\n");
  ASSERT_EQ(replies.size(), 4U);
  EXPECT_FALSE(replies[0].value("complete", false)) << replies[0].dump().substr(0, 500);
  EXPECT_TRUE(replies[0].contains("complete") || replies[0].value("exit_code", 0) == 5);
  EXPECT_EQ(replies[1].value("legal", false), true);
  EXPECT_EQ(replies[2], (nlohmann::json{{"schema", 1}, {"id", 3}, {"cancelled", true}}));
  EXPECT_EQ(replies[3], (nlohmann::json{{"schema", 1}, {"id", 4}, {"cancelled", false}}));
}

TEST_F(AskCommand, PrintsItsSchema) {
  const Said said = plumbline("ask --schema");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(said.out).at("$id"), "plumbline-ask-1");
}

TEST_F(AskCommand, ASearchIsTheOneOfTheCommand) {
  const Said command =
      plumbline("search gpt2-124m --hardware h100-sxm-80gb --gpus 4 --gbs 16 --top 3 --json");
  const std::vector<nlohmann::json> replies = replies_to(
      R"({"ask":"search","config":"gpt2-124m","top":3,"keys":{"hardware":"h100-sxm-80gb","gpus":4,)"
      R"("gbs":16}})");
  ASSERT_EQ(replies.size(), 1U);
  const nlohmann::json printed = nlohmann::json::parse(command.out);
  for (const auto& [key, value] : printed.items()) {
    if (key == "seconds") continue;
    EXPECT_EQ(replies[0].at(key), value) << key;
  }
}

}  // namespace
}  // namespace plumbline::ask_command_test
