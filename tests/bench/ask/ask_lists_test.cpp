// Lists in requests and replies: lengths of packed documents, the configuration keys, progress over changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/predict/packed_sequences.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/ask/answer.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/json_keys.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::ask_lists_test {
namespace {

using testing::HasSubstr;

OrderedJson request_with(const OrderedJson& lengths, const char* kind = "predict") {
  OrderedJson request = OrderedJson::parse(
      R"({"ask":"","keys":{"model":"gpt2-124m","hardware":"h100-sxm-80gb","gbs":2,"seq_length":1024}})");
  request["ask"] = kind;
  if (!lengths.is_null()) request["sequence_lengths"] = lengths;
  return request;
}

OrderedJson reply_to(const OrderedJson& request) {
  return OrderedJson::parse(answer(request.dump()));
}

double step_of(const OrderedJson& reply) {
  return reply.at("prediction").at("time").at("step_s").get<double>();
}

TEST(AskLists, LengthsAreThoseOfAFile) {
  OrderedJson request = request_with({1024, 256, 768});
  request["full"] = true;
  const OrderedJson reply = reply_to(request);
  ASSERT_FALSE(reply.contains("error")) << reply.dump();
  EXPECT_EQ(reply["sequence_lengths"]["documents"], 3);
  EXPECT_EQ(reply["sequence_lengths"]["sequences"], 2);
  EXPECT_EQ(reply["sequence_lengths"]["pairs_of_whole_sequences"], 0.8125);

  RunConfig config = load_run_config(
      "gpt2-124m", {{"hardware", "h100-sxm-80gb", ""}, {"gbs", "2", ""}, {"seq_length", "1024", ""}});
  config.batch.packed = packed_work(pack_sequences("1024\n256\n768\n", "file", 1024), config).attention;
  const Prediction expected = predict(config, step_for(config), load_hardware(config.machine.hardware));
  EXPECT_EQ(step_of(reply), expected.time.step.value);
  EXPECT_LT(step_of(reply), step_of(reply_to(request_with(nullptr))));
}

TEST(AskLists, LengthsGoWithEveryChange) {
  OrderedJson request = request_with({512, 512, 512, 512}, "compare");
  request["changes"] = {{{"seq_length", 512}}, {{"seq_length", 256}}};
  std::vector<std::pair<int, int>> told;
  const OrderedJson reply =
      OrderedJson::parse(answer(request.dump(), [&](int done, int all) { told.emplace_back(done, all); }));
  OrderedJson shorter = request_with({512, 512, 512, 512});
  shorter["keys"]["seq_length"] = 512;
  EXPECT_EQ(step_of(reply["changes"][0]), step_of(reply_to(shorter)));
  EXPECT_THAT(reply["changes"][1]["error"].get<std::string>(), HasSubstr("sequence_lengths[0]: found 512"));
  EXPECT_THAT(told, testing::ElementsAre(std::pair(1, 2), std::pair(2, 2)));
}

TEST(AskLists, WrongLengthsAreRefused) {
  const std::pair<OrderedJson, const char*> cases[] = {{OrderedJson::array(), "sequence_lengths: found []"},
                                                       {{0}, "sequence_lengths[0]: found 0"},
                                                       {{1, 1025}, "sequence_lengths[1]: found 1025"},
                                                       {{1, 2.5}, "sequence_lengths[1]: found 2.5"},
                                                       {"l.txt", "sequence_lengths: found \"l.txt\""}};
  for (const auto& [lengths, error] : cases) {
    const OrderedJson reply = reply_to(request_with(lengths));
    EXPECT_THAT(reply.value("error", ""), HasSubstr(error)) << reply.dump().substr(0, 300);
    EXPECT_EQ(reply.value("exit_code", 0), 2);
  }
  OrderedJson search = request_with({512}, "search");
  search["keys"]["gpus"] = 8;
  EXPECT_THAT(reply_to(search).value("error", ""), HasSubstr("unknown key sequence_lengths"));
  EXPECT_FALSE(reply_to(request_with(std::vector<int>(100'000, 700))).contains("error"));
}

TEST(AskLists, KeysHaveTheirShortNames) {
  const OrderedJson reply = reply_to({{"ask", "keys"}});
  ASSERT_EQ(reply.at("keys").size(), config_keys().size());
  std::set<std::string> shorts;
  for (const OrderedJson& key : reply["keys"]) {
    const ConfigKey* known = find_config_key(key["name"].get<std::string>());
    ASSERT_NE(known, nullptr) << key;
    EXPECT_EQ(key["expected"], known->expected);
    EXPECT_EQ(key["short"].is_null(), known->alias.empty()) << key;
    if (key["short"].is_null()) continue;
    EXPECT_EQ(find_config_key(key["short"].get<std::string>()), known);
    EXPECT_TRUE(shorts.insert(key["short"]).second) << key;
  }
  for (const char* name : {"tp", "pp", "dp", "mbs", "gbs", "gpus"})
    EXPECT_TRUE(shorts.contains(name)) << name;
}

}  // namespace
}  // namespace plumbline::ask_lists_test
