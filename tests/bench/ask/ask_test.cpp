// Replies to requests, to lines that are none, and their agreement with the functions behind them.
#include "bench/ask/answer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "bench/ask/legality.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/prediction_parts.hpp"
#include "core/base/json_keys.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/support/sanitized.hpp"

namespace plumbline::ask_test {
namespace {

using testing::HasSubstr;

OrderedJson reply_to(std::string_view request) {
  const std::string reply = answer(request);
  EXPECT_EQ(reply.find('\n'), std::string::npos) << reply;
  return OrderedJson::parse(reply);
}

constexpr const char* kPredict =
    R"({"ask":"predict","id":"a","keys":{"model":"llama-3.1-8b","hardware":"h100-sxm-80gb","gpus":64,"tp":2,)"
    R"("pp":4,"gbs":512,"seq_length":4096,"precision":"bf16","zero_stage":1}})";

Overrides keys_of(std::string_view request) {
  const auto json = OrderedJson::parse(request);
  Overrides keys;
  for (const auto& [key, value] : json["keys"].items())
    keys.push_back({key, value.is_string() ? value.get<std::string>() : value.dump(), "keys"});
  return keys;
}

TEST(Ask, APredictionIsTheOneOfTheLibrary) {
  const RunConfig config = load_run_config("", keys_of(kPredict));
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  const RepeatedSchedule step = step_for(config);
  const Prediction prediction = predict(config, step, hardware);
  OrderedJson brief = reply_to(kPredict);
  EXPECT_EQ(brief["schema"], kAskSchema);
  EXPECT_EQ(brief["id"], "a");
  EXPECT_EQ(brief["prediction"]["time"]["step_s"].get<double>(), prediction.time.step.value);
  EXPECT_EQ(brief["prediction"]["memory"]["peak_bytes"], prediction.memory.peak.value);
  EXPECT_EQ(brief["prediction"]["memory"]["peak_rank"], prediction.memory.peak_rank);
  EXPECT_EQ(brief["fit"]["needed_bytes"], prediction.fit.needed.value);
  OrderedJson request = OrderedJson::parse(kPredict);
  request["full"] = true;
  OrderedJson full = reply_to(request.dump());
  EXPECT_EQ(full["prediction"].dump(), to_json(whole_report(prediction, config, step, hardware)).dump());
  EXPECT_EQ(full["config"]["tensor_model_parallel_size"], 2);
  EXPECT_EQ(full["prediction"]["time"], brief["prediction"]["time"]);
  EXPECT_EQ(full["prediction"]["throughput"], brief["prediction"]["throughput"]);
}

TEST(Ask, RefusalsAreRepliesOfOneLine) {
  const struct {
    std::string request;
    const char* error;
  } cases[] = {
      {"", "not valid JSON"},
      {"null", "expected a JSON object"},
      {"[1]", "expected a JSON object"},
      {"\xff\xfe{}", "not valid JSON"},
      {"{\"ask\":\"predict\",\"keys\":{\"model\":\"\xc3\x28\"}}", "not valid JSON"},
      {std::string(100'000, '['), "nested deeper"},
      {R"({"ask":"predict","keys":{"model":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":)"
       R"({"a":{"a":{"a":)"
       R"({"a":{"a":1}}}}}}}}}}}}}}}}}})",
       "nested deeper"},
      {R"({"ask":"predict","keys":{"tp":1e999}})", "not valid JSON"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tp":99999999999999999999}})",
       "tensor_model_parallel_size: found"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tp":-1}})", "tensor_model_parallel_size: found"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tp":2.5}})", "tensor_model_parallel_size: found"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tp":[1]}})", "keys: tp: found a list"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tp":null}})", "keys: tp: found null"},
      {R"({"ask":"predict","keys":{"model":"gpt2-124m","tensor":1}})", "unknown key"},
      {R"({"ask":"predict","keys":{"model":"no\u0000\u001b[31m"}})", "keys: model"},
      {R"({"ask":"predict","config":"a\u0000b"})", "config: found a NUL byte"},
      {R"({"ask":"predict","config":"/nowhere/run.yaml"})", "no such file"},
      {R"({"ask":"predict"})", "model: missing"},
      {R"({"ask":"predict","keys":[]})", "keys: found []"},
      {R"({"ask":"predict","kyes":{}})", "unknown key kyes"},
      {R"({"ask":"predictions"})", "expected one of predict"},
      {R"({"keys":{}})", "expected one of predict"},
      {R"({"ask":"search","top":0})", "top: found 0"},
      {R"({"ask":"search","keys":{"model":"gpt2-124m"}})", "search: --gpus: missing"},
      {R"({"ask":"search","max_cp":4097,"keys":{"model":"gpt2-124m"}})", "--max-cp 4097"},
      {R"({"ask":"compare","keys":{"model":"gpt2-124m"},"changes":3})", "changes: found 3"},
      {R"({"ask":"compare","keys":{"model":"gpt2-124m","hardware":"h100"},"changes":[3]})", "changes[0]"},
      {R"({"ask":"legality","id":{"a":1}})", "id: found"},
      {R"({"ask":"legality","id":")" + std::string(201, 'x') + R"("})", "id: found"},
  };
  for (const auto& each : cases) {
    const OrderedJson reply = reply_to(each.request);
    ASSERT_TRUE(reply.contains("error")) << each.request.substr(0, 200) << "\n" << reply.dump();
    EXPECT_THAT(reply["error"].get<std::string>(), HasSubstr(each.error)) << each.request.substr(0, 200);
    EXPECT_EQ(reply["exit_code"], 2);
    EXPECT_EQ(reply["schema"], kAskSchema);
  }
  EXPECT_THAT(refuse_long_request(10'000'000), HasSubstr("found a line of 10000000 bytes"));
}

TEST(Ask, IdsAreRepeatedByteForByte) {
  const std::string ids[] = {"0",
                             "-0",
                             "9007199254740993",
                             "18446744073709551615",
                             "18446744073709551616",
                             "123456789012345678901234567890",
                             "-9223372036854775809",
                             "0.10",
                             "1.5e3",
                             "1E+2",
                             "12345678901234567.25",
                             R"("")",
                             R"("a, \"id\": 3}")",
                             R"("\u0041\/\n")",
                             "\"\xc3\xa9\"",
                             R"("\\")",
                             "null"};
  for (const std::string& id : ids) {
    for (const char* request : {R"({"ask":"legality","keys":{"model":"gpt2-124m","id":1},"id":)",
                                R"({"id2":{"id":5},  "id" :  )", R"({"x":["id",{"id":6}],"id":)"}) {
      for (const char* end : {"}", " ,\t\"top\":1}", "\r\n}"}) {
        const std::string reply = answer(request + id + end);
        EXPECT_THAT(reply, testing::StartsWith(R"({"schema":1,"id":)" + id + ",")) << request << id;
        EXPECT_TRUE(OrderedJson::accept(reply)) << reply;
      }
    }
  }
  EXPECT_THAT(answer(R"({"ask":"abacus","\u0069d":7})"), HasSubstr(R"("id":7,)"));
  EXPECT_THAT(answer(R"({"ask":"abacus"})"), HasSubstr(R"("id":null,)"));
}

// Unlike a value that no run has, a key that does not exist says nothing about the configuration.
TEST(Ask, AQuestionThatCannotBeReadIsAnErrorNotIllegal) {
  const struct {
    const char* request;
    const char* error;
  } cases[] = {
      {R"({"ask":"legality","keys":{"model":"gpt2-124m","micro_batchsize":2}})",
       "the nearest known key is micro_batch_size"},
      {R"({"ask":"legality","config":"gpt2-124m","keys":{"zero_stge":9}})",
       "the nearest known key is zero_stage"},
      {R"({"ask":"legality","config":"/nowhere/run.yaml"})", "no such file"},
      {R"({"ask":"legality","config":"gpt2-124n"})", "did you mean gpt2-124m"},
      {R"({"ask":"legality","config":"a\u0000b"})", "config: found a NUL byte"},
      {R"({"ask":"legality","keys":{"tp":[1]}})", "keys: tp: found a list"},
      {R"({"ask":"compare","keys":{"model":"gpt2-124m","hardware":"h100","tpp":2},"changes":[]})",
       "unknown key"},
  };
  for (const auto& each : cases) {
    const OrderedJson reply = reply_to(each.request);
    EXPECT_FALSE(reply.contains("legal")) << reply.dump();
    EXPECT_THAT(reply.value("error", ""), HasSubstr(each.error)) << each.request;
    EXPECT_EQ(reply.value("exit_code", 0), 2);
  }
  const OrderedJson illegal = reply_to(R"({"ask":"legality","keys":{"model":"gpt2-124m","tp":5}})");
  EXPECT_EQ(illegal.value("legal", true), false) << illegal.dump();
}

constexpr const char* kSearch =
    R"({"ask":"search","id":"s","threads":1,"max_cp":1,"keys":{"model":"gpt2-124m","hardware":"h100",)"
    R"("gpus":8,"gbs":16,"seq_length":1024}})";

TEST(Ask, AStepOfReinforcementLearningHasItsPhases) {
  constexpr const char* kStep =
      R"({"ask":"predict","keys":{"model":"qwen2.5-7b","task":"grpo","hardware":"h100","gpus":8,"tp":2,)"
      R"("software":"megatron-core","seq_length":2048,"prompt_length":512,"max_new_tokens":1536,"gbs":64,)"
      R"("num_prompts_per_step":16,"num_generations_per_prompt":8,"rollout_software":"vllm"}})";
  Overrides keys = keys_of(kStep);
  const RunConfig config = load_run_config("", keys);
  const ReinforcementPrediction prediction =
      predict_reinforcement(config, load_hardware("h100-sxm-80gb"), step_for);
  const OrderedJson brief = reply_to(kStep);
  EXPECT_EQ(brief["prediction"]["time"]["step_s"].get<double>(), prediction.step.value);
  EXPECT_EQ(brief["prediction"]["fits"], prediction.fits);
  EXPECT_EQ(brief["fit"]["needed_bytes"], prediction.phases[prediction.fullest].needed.value);
  const OrderedJson& phases = brief["reinforcement"]["phases"];
  ASSERT_EQ(phases.size(), prediction.phases.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    EXPECT_EQ(phases[i]["name"], prediction.phases[i].name);
    EXPECT_EQ(phases[i]["time_s"].get<double>(), prediction.phases[i].time.value);
  }
  EXPECT_FALSE(brief.contains("config"));
  OrderedJson request = OrderedJson::parse(kStep);
  request["full"] = true;
  const OrderedJson whole = reply_to(request.dump());
  EXPECT_EQ(whole["config"]["num_prompts_per_step"], 16);
  EXPECT_TRUE(whole.contains("trust"));
  request.erase("full");
  request["ask"] = "legality";
  EXPECT_EQ(reply_to(request.dump())["legal"], true);
  request["keys"]["num_generations_per_prompt"] = 1;
  EXPECT_THAT(reply_to(request.dump())["reason"].get<std::string>(), HasSubstr("num_generations_per_prompt"));
}

TEST(Ask, ADeadlineEndsASearchWithWhatItHasFound) {
  OrderedJson request = OrderedJson::parse(kSearch);
  const OrderedJson whole = reply_to(kSearch);
  EXPECT_EQ(whole.value("complete", false), true) << whole.dump().substr(0, 500);
  const auto all = whole.at("configurations").get<std::int64_t>();
  // Until one fits; a machine may be slow.
  for (const double deadline : {0.001, 0.01, 0.1, 1.0, 10.0}) {
    request["deadline_s"] = deadline;
    const OrderedJson part = reply_to(request.dump());
    if (part.contains("error")) {
      EXPECT_EQ(part["exit_code"], 5) << part.dump();
      EXPECT_THAT(part["error"].get<std::string>(), HasSubstr("raise deadline_s"));
      continue;
    }
    EXPECT_GE(part.at("best").size(), 1U);
    if (part.at("complete").get<bool>()) break;
    EXPECT_LE(part.at("configurations").get<std::int64_t>(), all);
    EXPECT_LT(part.at("simulated").get<std::int64_t>(), whole.at("simulated").get<std::int64_t>());
  }
  EXPECT_THAT(answer(R"({"ask":"search","deadline_s":0})"), HasSubstr("deadline_s: found 0"));
  EXPECT_THAT(answer(R"({"ask":"search","deadline_s":"5"})"), HasSubstr("deadline_s: found"));
}

TEST(Ask, ACancelledSearchEndsAtTheNextLook) {
  int looks = 0;
  const auto stop = [&](std::string_view id) {
    EXPECT_EQ(id, R"("s")");
    return ++looks > 100;
  };
  const OrderedJson reply = OrderedJson::parse(answer(kSearch, {}, {stop, {}}));
  EXPECT_EQ(reply.value("complete", true) && !reply.contains("error"), false) << reply.dump();
  EXPECT_LE(looks, 101);
  const auto done = [](std::string_view id) { return id == R"("s")"; };
  for (const auto& [id, cancelled] : {std::pair(R"("s")", true), std::pair(R"("t")", false)}) {
    const std::string line = fmt::format(R"({{"ask":"cancel","cancel":{}}})", id);
    EXPECT_EQ(cancelled_id(line), id);
    EXPECT_EQ(OrderedJson::parse(answer(line, {}, {{}, done})).at("cancelled"), cancelled);
  }
  EXPECT_EQ(cancelled_id(kSearch), "");
  EXPECT_EQ(cancelled_id(R"({"ask":"cancel","cancel":[1]})"), "");
  EXPECT_EQ(cancelled_id(R"({"ask":"search","keys":{"model":"cancel","cancel":1}})"), "");
  EXPECT_THAT(answer(R"({"ask":"cancel"})"), HasSubstr("cancel: missing"));
}

TEST(Ask, ASearchThatFindsNothingHasItsExitCode) {
  const OrderedJson reply = reply_to(R"({"ask":"search","id":7,"threads":1,"keys":{"model":"llama-3.1-70b",)"
                                     R"("hardware":"h100","gpus":1,"gbs":1}})");
  EXPECT_EQ(reply["exit_code"], 3) << reply.dump();
  EXPECT_EQ(reply["id"], 7);
}

TEST(Ask, ASearchHasTheBestAndItsCommand) {
  const OrderedJson reply =
      reply_to(R"({"ask":"search","top":2,"threads":1,"keys":{"model":"gpt2-124m","hardware":"h100",)"
               R"("gpus":4,"gbs":16,)"
               R"("seq_length":1024}})");
  ASSERT_EQ(reply["best"].size(), 2U) << reply.dump();
  EXPECT_THAT(reply["best"][0]["command"].get<std::string>(), HasSubstr("--gpus 4"));
  EXPECT_THAT(reply["notes"].dump(), HasSubstr("h100 stands for h100-sxm-80gb"));
}

TEST(Ask, ChangesAreComparedWithTheBase) {
  const OrderedJson reply = reply_to(
      R"({"ask":"compare","keys":{"model":"llama-3.1-8b","hardware":"h100","gpus":8,"tp":8,"gbs":64,)"
      R"("precision":"bf16","seq_length":4096},"changes":[{"tp":3},)"
      R"({"data_parallel_size":2},{"tp":4},{"tp":16}]})");
  ASSERT_EQ(reply["changes"].size(), 4U) << reply.dump();
  EXPECT_THAT(reply["changes"][0]["error"].get<std::string>(), HasSubstr("world_size: found 8"));
  EXPECT_LT(reply["changes"][1]["step_time"].get<double>(), 0);  // 16 ranks
  const double base = reply["base"]["prediction"]["time"]["step_s"];
  const double changed = reply["changes"][2]["prediction"]["time"]["step_s"];
  EXPECT_EQ(reply["changes"][2]["step_time"].get<double>(), changed / base - 1);
  EXPECT_EQ(reply["fastest"], 1);
}

/// A configuration from a few values of each key, legal or not.
Overrides drawn_keys(std::mt19937& random) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> choices = {
      {"model", {"llama-3.1-8b", "gpt2-124m", "mixtral-8x7b", "qwen2.5-0.5b"}},
      {"hardware", {"h100-sxm-80gb", "a100-sxm-80gb", "b200-sxm-180gb"}},
      {"tp", {"1", "2", "3", "4", "8"}},
      {"pp", {"1", "2", "4", "5", "8"}},
      {"data_parallel_size", {"1", "2", "4"}},
      {"global_batch_size", {"8", "16", "24", "64", "512"}},
      {"micro_batch_size", {"1", "2"}},
      {"seq_length", {"512", "1000", "4096"}},
      {"precision", {"bf16", "fp32", "fp8"}},
      {"pipeline_schedule",
       {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-v", "v-half", "dualpipe", "dualpipev", "zb-auto", "no"}},
      {"virtual_pipeline_chunks", {"1", "1", "2", "4"}},
      {"zero_stage", {"0", "1", "2", "3"}},
      {"sequence_parallel", {"true", "false"}},
      {"vocab_parallel", {"none", "none", "vocab-1"}},
      {"recompute_granularity", {"none", "selective", "full"}},
      {"software", {"plumbline", "megatron-core", "torchtitan"}},
  };
  Overrides keys;
  for (const auto& [key, values] : choices) {
    if (keys.size() > 3 && random() % 3 == 0) continue;
    keys.push_back({key, values[random() % values.size()], "keys"});
  }
  return keys;
}

TEST(Ask, LegalityIsWhatThePredictionRefuses) {
  std::mt19937 random(62);
  int legal = 0;
  const int draws = test::cases_here(1500, 500);
  for (int i = 0; i < draws; ++i) {
    const Overrides keys = drawn_keys(random);
    OrderedJson request = {{"ask", "predict"}, {"keys", OrderedJson::object()}};
    for (const Override& each : keys) request["keys"][each.key] = each.value;
    const std::string expected = reply_to(request.dump()).value("error", "");
    const OrderedJson reply = legality_answer({"", keys});
    ASSERT_EQ(reply["legal"].get<bool>(), expected.empty()) << expected << "\n" << reply.dump();
    if (expected.empty()) {
      ++legal;
    } else {
      EXPECT_EQ(reply["reason"], expected);
    }
  }
  EXPECT_GT(legal, draws / 15);
}

/// Bytes of the process that lie in memory.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

TEST(Ask, SpoiledLinesAreAnsweredInFlatMemory) {
  const std::vector<std::string> whole = {
      kPredict, R"({"ask":"legality","id":1,"config":"qwen2.5-0.5b","keys":{"tp":2,"pp":2,"gbs":8}})",
      R"({"ask":"compare","keys":{"model":"gpt2-124m","hardware":"h100","gbs":4},)"
      R"("changes":[{"tp":2},{"pp":3}]})"};
  std::mt19937 random(1);
  std::size_t before = 0;
  const int lines = test::cases_here(6000, 1500);
  for (int i = 0; i < lines; ++i) {
    std::string line = whole[random() % whole.size()];
    for (unsigned spoiled = random() % 4; spoiled > 0; --spoiled) {
      const std::size_t at = random() % line.size();
      switch (random() % 4) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line.erase(at, random() % 20);
          break;
        case 2:
          line.insert(at, 1 + random() % 8, "0123456789{}[]\",:-e."[random() % 20]);
          break;
        default:
          line.insert(at, whole[random() % whole.size()].substr(0, random() % 60));
      }
      if (line.empty()) line = "{";
    }
    const std::string reply = answer(line);
    ASSERT_EQ(reply.find('\n'), std::string::npos);
    ASSERT_TRUE(OrderedJson::accept(reply)) << line << "\n" << reply;
    if (i == lines / 3) {
      malloc_trim(0);
      before = resident_bytes();
    }
  }
  malloc_trim(0);
  EXPECT_LT(resident_bytes(), before + (std::size_t{8} << 20));
}

TEST(Ask, TheSchemaIsOfThisVersion) {
  const auto schema = OrderedJson::parse(ask_schema());
  EXPECT_EQ(schema["$defs"]["reply"]["properties"]["schema"]["const"], kAskSchema);
  for (const auto& kind : schema["$defs"]["request"]["properties"]["ask"]["enum"]) {
    const OrderedJson reply = reply_to(OrderedJson{{"ask", kind}, {"kyes", 1}}.dump());
    EXPECT_THAT(reply.dump(), testing::Not(HasSubstr("expected one of"))) << kind;
  }
}

}  // namespace
}  // namespace plumbline::ask_test
