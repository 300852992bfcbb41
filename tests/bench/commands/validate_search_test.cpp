// `plumbline validate` and `plumbline search` as a script sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::validate_search_test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class ValidateSearch : public ProgramFolder {
 protected:
  ValidateSearch() {
    write("gpt.yaml",
          "model: gpt2-124m\nhardware: a100-sxm-80gb\nseq_length: 1024\nmicro_batch_size: "
          "1\nglobal_batch_size: 16\n");
    write("grpo.yaml",
          "task: grpo\nmodel: llama-3.1-8b\nhardware: h100-sxm-80gb\nsoftware: megatron-core\nworld_size: 8\n"
          "seq_length: 1024\nprompt_length: 256\nmax_new_tokens: 768\nglobal_batch_size: 32\n"
          "num_prompts_per_step: 8\nnum_generations_per_prompt: 8\nrollout_software: vllm\n"
          "rollout_world_size: 8\nrollout_placement: split\n");
  }
};

TEST_F(ValidateSearch, ValidateWorksFromAnyFolder) {
  const nlohmann::json json = json_of("validate --json --plot errors.svg");
  bool seen = false;
  for (const nlohmann::json& table : json.at("tables")) {
    if (table.at("name") != "korthikanti_table5") continue;
    seen = true;
    EXPECT_EQ(table.at("rows"), 4);
    EXPECT_LT(table.at("mape"), 0.04);
  }
  EXPECT_TRUE(seen);
  EXPECT_THAT(read("errors.svg"), HasSubstr("</svg>"));
}

TEST_F(ValidateSearch, ValidateRefusesBadTables) {
  EXPECT_EQ(plumbline("validate --tables nowhere").exit_code, 2);
  EXPECT_EQ(plumbline("validate --table nonsense").exit_code, 2);
  EXPECT_EQ(plumbline("validate --plot nowhere/x.svg").exit_code, 4);
  fs::create_directory(folder_ / "tables");
  EXPECT_EQ(plumbline("validate --tables tables").exit_code, 2);
  write("tables/korthikanti_table5.csv", "model,heads,full_recompute_iter_s\n22B,banana,1\n");
  const Said outcome = plumbline("validate --tables tables");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("korthikanti_table5.csv: row 1: "));
  EXPECT_THAT(outcome.out, ContainsRegex("korthikanti_table5: rows skipped: 1 unreadable\n"));
  const Said chosen = plumbline("validate --tables tables --leave-one-out");
  EXPECT_EQ(chosen.exit_code, 2);
  EXPECT_THAT(chosen.err, HasSubstr("found 0 tables with step times, expected at least two"));
}

/// The example of results/published/README.md, as a reader would type it.
TEST_F(ValidateSearch, OwnRunsAreReadAsTheReadmeSays) {
  const std::string page = read(fs::path(PLUMBLINE_SOURCE_DIR) / "results/published/README.md");
  const auto block = [&](const std::string& language) {
    const std::size_t begin = page.find("```" + language + "\n") + language.size() + 4;
    return page.substr(begin, page.find("```", begin) - begin);
  };
  fs::create_directory(folder_ / "my_runs");
  write("my_runs/llama.csv", block("csv"));
  write("my_runs/llama.yaml", block("yaml"));
  const Said outcome = plumbline("validate --tables my_runs --rows");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("llama +step_s +2 "));
  EXPECT_THAT(outcome.out, ContainsRegex("llama +peak_bytes +2 "));
  EXPECT_THAT(outcome.out, ContainsRegex("8 nodes +step_s +[0-9.]+ +2.61 "));
  EXPECT_THAT(outcome.out, HasSubstr("row 3 skipped: not modelled yet: expert_model_parallel_size"));
  const nlohmann::json json = nlohmann::json::parse(plumbline("validate --tables my_runs --json").out);
  EXPECT_EQ(json.at("tables").at(0).at("skipped").at(0).at("row"), 3);
  EXPECT_EQ(json.at("not_modelled").at("expert_model_parallel_size"), 1);
  EXPECT_EQ(json.at("groups").at("source").at(0).at("value"), "our logbook, week 12");
  const Said groups = plumbline("validate --tables my_runs --group-by parallelism");
  EXPECT_THAT(groups.out, ContainsRegex("tp dp +step_s +1 "));
  EXPECT_EQ(plumbline("validate --tables my_runs --group-by colour").exit_code, 2);
}

TEST_F(ValidateSearch, UnknownTablesAreNamedAndEndWithTwo) {
  fs::create_directory(folder_ / "tables");
  write("tables/of_my_own.csv", "a,b\n1,2\n");
  write("tables/notes.txt", "not a table");
  const Said outcome = plumbline("validate --tables tables");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("unreadable"));
  EXPECT_THAT(outcome.err, HasSubstr("of_my_own.csv: no reader for this table"));
}

/// Files that cells and headers name are found beside the table, wherever the program is started.
TEST_F(ValidateSearch, FilesOfATableAreFoundBesideIt) {
  fs::create_directories(folder_ / "tables/hw");
  write("tables/hw/half.json", R"({"name": "half", "like": "h100-sxm-80gb", "constants":
      {"peak_16bit": {"value": 494.5e12, "source": "half of it"},
       "peak_8bit": {"value": 989e12, "dense": true, "source": "half of it"}}})");
  write("tables/hw/model.json", read(fs::path(PLUMBLINE_SOURCE_DIR) / "tests/golden/llama/config.json"));
  const std::string keys =
      "software: megatron-core, seq_length: 64, micro_batch_size: 1, global_batch_size: 8, world_size: 8";
  write("tables/cells.csv",
        "hardware,model,step_s\nhw/half.json,hw/model.json,1\nh100-sxm-80gb,llama-3.1-8b,1\n");
  write("tables/cells.yaml", "defaults: {" + keys + "}\n");
  write("tables/header.csv", "step_s\n1\n");
  write("tables/header.yaml", "defaults: {hardware: hw/half.json, model: hw/model.json, " + keys + "}\n");
  const Said from_above = plumbline("validate --tables tables --json");
  ASSERT_EQ(from_above.exit_code, 0) << from_above.err;
  const auto tables = nlohmann::json::parse(from_above.out).at("tables");
  ASSERT_EQ(tables.at(0).at("comparisons").size(), 2U);
  EXPECT_EQ(tables.at(0)["comparisons"][0]["predicted"], tables.at(1)["comparisons"][0]["predicted"]);
  const auto absolute =
      nlohmann::json::parse(plumbline("validate --json --tables " + (folder_ / "tables").string()).out);
  EXPECT_EQ(absolute.at("tables").at(0)["comparisons"], tables.at(0)["comparisons"]);
}

TEST_F(ValidateSearch, AFailureOfRowsIsSaidOnce) {
  fs::create_directory(folder_ / "tables");
  std::string text = "hardware,tp,step_s\n";
  for (int row = 1; row <= 20; ++row) text += row % 4 == 0 ? "h100-sxm-80gb,x,1\n" : "hw/none.json,1,1\n";
  write("tables/runs.csv", text);
  write("tables/runs.yaml",
        "defaults: {software: megatron-core, seq_length: 64, micro_batch_size: 1, global_batch_size: 8, "
        "world_size: 8, model: llama-3.1-8b}\n");
  for (const char* more : {"", "--json", "--rows --json", "--changes", "--group-by source"}) {
    const Said said = plumbline(std::string("--quiet validate --tables tables ") + more);
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 2) << said.err;
    EXPECT_THAT(said.err, HasSubstr("runs.csv: rows 1, 2, 3, 5, 6, 7, 9, 10, 11, 13 and 5 more: "));
    EXPECT_THAT(said.err, HasSubstr("runs.csv: rows 4, 8, 12, 16, 20: tensor_model_parallel_size: found "));
  }
  const Said rows = plumbline("--quiet validate --tables tables --rows");
  EXPECT_EQ(rows.exit_code, 2);
  EXPECT_EQ(std::count(rows.err.begin(), rows.err.end(), '\n'), 1) << rows.err;
  EXPECT_THAT(rows.out, HasSubstr("row 4 skipped: runs.csv: row 4: tensor_model_parallel_size: found "));
}

TEST_F(ValidateSearch, SearchFindsTheBestFirst) {
  const nlohmann::json json = json_of("search gpt.yaml --gpus 8 --top 4 --json");
  ASSERT_EQ(json.at("best").size(), 4u);
  EXPECT_LE(json["best"][0]["step_s"], json["best"][1]["step_s"]);
  EXPECT_TRUE(json.contains("why_not_second"));
  EXPECT_FALSE(json.at("front").empty());
  const Said text = plumbline("search gpt.yaml --gpus 8");
  EXPECT_THAT(text.out, HasSubstr("second best:"));
  EXPECT_THAT(text.out, HasSubstr("not searched: context_parallel_size"));
  const Said shared = plumbline(
      "search llama-3.1-8b --gpus 8 --gbs 1 --seq-length 131072 --hardware h100-sxm-80gb --max-cp 8");
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  EXPECT_THAT(shared.out, ContainsRegex("dp 1 cp [248] (p2p|a2a|all_gather) mbs 1"));
  EXPECT_THAT(shared.out, HasSubstr("best configuration, by cp_comm_type: step time s"));
  EXPECT_THAT(shared.out, Not(HasSubstr("not searched")));
}

/// A proposal's command predicts the proposal; none is there twice, and what does not fit says so.
TEST_F(ValidateSearch, ProposalsAreCommandsThatPredictThem) {
  write("odd name.yaml", "model: llama-3.1-8b\nhardware: h100-sxm-80gb\nseq_length: 8192\n");
  // Sizes of a file are where the search starts, and nothing more.
  write("layout.yaml",
        "model: mixtral-8x7b\nhardware: h200-sxm-141gb\nseq_length: 4096\nprecision: fp8\nsoftware: "
        "megatron-core\nworld_size: 16\ncontext_parallel_size: 2\nexpert_model_parallel_size: 8\n");
  for (const char* request : {"search llama-3.1-70b --gpus 64 --gbs 64 --seq-length 8192 --hardware "
                              "h100-sxm-80gb --precision bf16 --software "
                              "torchtitan --tp 2",
                              "search 'odd name.yaml' --gpus 16 --set global_batch_size=16 --mbs 1",
                              "search llama-3.1-8b --gpus 16 --gbs 2 --seq-length 65536 --hardware "
                              "h100-sxm-80gb --precision bf16 --software "
                              "megatron-core",
                              "search layout.yaml --gpus 16 --gbs 32 --mbs 1"}) {
    SCOPED_TRACE(request);
    const Said outcome = plumbline(std::string(request) + " --top 6 --json");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json json = nlohmann::json::parse(outcome.out);
    const auto figures = [](const nlohmann::json& c) {
      return c["step_s"].dump() + c["peak_bytes"].dump() + c["config"]["tensor_model_parallel_size"].dump() +
             c["config"]["pipeline_model_parallel_size"].dump();
    };
    std::set<std::string> seen;
    for (const nlohmann::json& best : json["best"])
      EXPECT_TRUE(seen.insert(figures(best)).second) << best.dump();
    for (const nlohmann::json& proposed : {json["best"][0], json["best"][5], json["front"].back()}) {
      const std::string command = proposed["command"];
      ASSERT_EQ(command.rfind("plumbline ", 0), 0U);
      const Said said = plumbline(command.substr(10) + " --json");
      EXPECT_EQ(said.exit_code, proposed["fits"] ? 0 : 3) << command << said.err;
      const nlohmann::json prediction = nlohmann::json::parse(said.out)["prediction"];
      EXPECT_EQ(prediction["time"]["step_s"], proposed["step_s"]) << command;
      EXPECT_EQ(prediction["memory"]["peak_bytes"], proposed["peak_bytes"]) << command;
      for (const char* rate : {"tokens_per_s", "mfu"})
        EXPECT_EQ(prediction["throughput"][rate], proposed[rate]);
    }
    const Said text = plumbline(std::string(request) + " --top 3");
    EXPECT_THAT(text.out, HasSubstr("tokens/s"));
    EXPECT_THAT(text.out, HasSubstr("\n  1 plumbline predict "));
    const bool some_do_not =
        std::ranges::any_of(json["front"], [](const auto& each) { return !each["fits"]; });
    EXPECT_EQ(text.out.find("(does not fit)") != std::string::npos, some_do_not);
    EXPECT_EQ(some_do_not, std::string_view(request).find("70b") != std::string_view::npos);
  }
}

TEST_F(ValidateSearch, SizesGivenAsOptionsAreKept) {
  const nlohmann::json json = json_of(
      "search mixtral-8x7b --gpus 16 --gbs 32 --seq-length 4096 --hardware h200-sxm-141gb --software "
      "megatron-core --precision fp8 --tp 2 --cp 2 --ep 4 --etp 2 --top 50 --json");
  std::set<std::string> layouts;
  for (const nlohmann::json& each : json["best"]) {
    EXPECT_EQ(each["config"]["context_parallel_size"], 2);
    EXPECT_EQ(each["config"]["expert_model_parallel_size"], 4);
    EXPECT_EQ(each["config"]["expert_tensor_parallel_size"], 0) << "as tensor_model_parallel_size";
    layouts.insert(each["config"].dump());
  }
  EXPECT_EQ(layouts.size(), 50U);
}

/// Fitting candidates come first, even if others are faster.
TEST_F(ValidateSearch, WhatLimitsLeadsWithWhatFits) {
  const Said outcome = plumbline(
      "predict llama-3.1-8b --gpus 8 --gbs 64 --tp 2 --seq-length 8192 --hardware h100-sxm-80gb --precision "
      "bf16 "
      "--what-limits --json");
  const nlohmann::json changes = nlohmann::json::parse(outcome.out)["what_limits"]["changes"];
  bool fits = true;
  double before = 0;
  int kinds = 1;
  for (const nlohmann::json& change : changes) {
    if (change["fits"] != fits) {
      ++kinds;
      before = 0;
    }
    fits = change["fits"];
    EXPECT_LE(before, change["step_s"]);
    before = change["step_s"];
  }
  EXPECT_EQ(kinds, 2) << changes.dump();
  EXPECT_FALSE(fits);
}

/// Everything that is proposed can be predicted: search and `predict` have the same rules.
TEST_F(ValidateSearch, WhatIsProposedCanBePredicted) {
  write("llama.yaml",
        "model: llama-3.1-8b\nhardware: h100-sxm-80gb\nseq_length: 4096\nglobal_batch_size: 16\n");
  for (const char* request : {"search llama.yaml --gpus 16 --top 2000 --json",
                              "search gpt.yaml --gpus 12 --gbs 24 --top 2000 --json"}) {
    const Said outcome = plumbline(request);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json json = nlohmann::json::parse(outcome.out);
    const std::string file =
        (folder_ / (std::string(request).find("llama") == std::string::npos ? "gpt.yaml" : "llama.yaml"))
            .string();
    const std::string batch = std::string(request).find("--gbs") == std::string::npos ? "16" : "24";
    int vocabulary = 0;
    for (const char* list : {"best", "front"}) {
      for (const nlohmann::json& candidate : json.at(list)) {
        Overrides overrides = {{"global_batch_size", batch}};
        for (const auto& [key, value] : candidate.at("config").items())
          overrides.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
        const RunConfig config = load_run_config(file, overrides);
        vocabulary += config.parallel.splits_vocabulary() ? 1 : 0;
        EXPECT_EQ(why_invalid(config).value_or(""), "") << candidate.dump();
        EXPECT_EQ(why_unpredictable(config).value_or(""), "") << candidate.dump();
      }
    }
    EXPECT_GT(vocabulary, 0) << "the case in question is not among them";
  }
}

TEST_F(ValidateSearch, NothingReadIsNoErrorOfZero) {
  fs::create_directory(folder_ / "tables");
  write("tables/of_my_own.csv", "a,b\n1,2\n");
  const nlohmann::json json = nlohmann::json::parse(plumbline("validate --tables tables --json").out);
  const nlohmann::json& table = json.at("tables").at(0);
  EXPECT_EQ(table.at("rows"), 0);
  for (const char* figure : {"mape", "bias", "p90", "worst", "regret"})
    EXPECT_TRUE(table.at(figure).is_null()) << figure;
}

TEST_F(ValidateSearch, PlacementsComeWithTheirCommands) {
  for (const char* options : {"", " --gpus 8 --mbs 1 --set rollout_placement=resident"}) {
    const nlohmann::json found = json_of(std::string("search grpo.yaml --top 3 --json") + options);
    EXPECT_EQ(found["gpus"], *options == '\0' ? 16 : 8);
    ASSERT_EQ(found["best"].size(), 3U);
    for (const nlohmann::json& step : found["best"]) {
      const std::string command = step["command"];
      const std::string arguments = command.substr(std::string_view("plumbline ").size());
      EXPECT_EQ(json_of(arguments + " --json")["step_s"], step["step_s"]) << command;
    }
  }
  const Said text = plumbline("search grpo.yaml --top 2");
  EXPECT_THAT(text.out, HasSubstr("best of each placement:"));
  EXPECT_THAT(text.out, HasSubstr("  2 plumbline predict grpo.yaml --"));
}

TEST_F(ValidateSearch, ImpossibleRequestsSayWhatWouldHaveToChange) {
  struct Case {
    const char* arguments;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {"search gpt.yaml --gpus 0", 2, "expected a whole number from 1"},
      {"search gpt.yaml --gpus -3", 2, "expected a whole number from 1"},
      {"search gpt.yaml", 2, "--gpus: missing"},
      {"search gpt2-124m --gpus 8", 2, "--hardware: missing"},
      {"search gpt.yaml --gpus 8 --cp 2 --max-cp 1", 2, "no configuration with context_parallel_size 2"},
      {"search gpt.yaml --gpus 8 --max-cp 0", 2, "--max-cp: found 0, expected a whole number from 1 to 4096"},
      {"search gpt.yaml --gpus 8 --seq-length 2048", 2, "learned positions"},
      {"search gpt.yaml --gpus 8 --top 0", 2, "--top"},
      {"search gpt.yaml --gpus 8 --set teacher=gpt2-124m", 2, "distillation is not searched"},
      {"search gpt.yaml --gpus 8 --set hardware=b400", 2, "a100-sxm-80gb"},
      {"search gpt.yaml --gpus 13", 2, "--gbs"},
      {"search gpt.yaml --gpus 1 --set memory_budget=1MiB", 3, "the smallest takes"},
      {"search grpo.yaml --gpus 8 --tp 3", 2, "no placement is valid"},
      {"search grpo.yaml --gpus 1 --hardware a100-sxm-40gb", 3, "placements fits on 1 accelerators"},
      {"search grpo.yaml --export megatron-lm", 2, "search: found --export with task grpo"},
  };
  for (const Case& c : cases) {
    const Said outcome = plumbline(c.arguments);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << c.arguments << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.message)) << c.arguments;
    EXPECT_TRUE(outcome.out.empty());
  }
}

}  // namespace
}  // namespace plumbline::validate_search_test
