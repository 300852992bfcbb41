// The exit codes that the manual lists for every command, each reached once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "bench/commands/help/command_pages.hpp"
#include "bench/processes/hosts/host_list.hpp"
#include "core/base/error.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::exit_codes_test {
namespace {

namespace fs = std::filesystem;
using enum ExitCode;

struct Case {
  std::string command;
  ExitCode code;
  std::string arguments;    // behind the command
  std::string before = {};  // a line of shell
};

const std::string kModel = " --hardware h100-sxm-80gb";
const std::string kFull = " >/dev/full";

std::vector<Case> all_cases() {
  const std::string golden = PLUMBLINE_SOURCE_DIR "/tests/golden/llama";
  const std::string demo = PLUMBLINE_SOURCE_DIR "/results/recorded/epyc-2-cores/demo.jsonl";
  const std::string eight = "llama-3.1-8b --gpus 8 --tp 8 --gbs 8" + kModel;
  const std::string sized = "llama-3.1-8b --tokens 1B --gpus 8 --gbs 64" + kModel;
  const std::string seventy = "llama-3.1-70b --gpus 8 --tp 8 --gbs 8" + kModel;
  const std::string pipeline = "1f1b --pp 2 --microbatches 4";
  const std::string bench = "collective all-reduce --sizes 64 --time-limit 0.01";
  const std::string import = "sizes.csv" + kModel;
  const std::string generation = "run.yaml --max-new-tokens 4";
  return {
      {"ask", done, "--schema"},
      {"ask", bad_input, "abacus"},
      {"ask", rank_failed, "--schema" + kFull},
      {"bench", done, bench},
      {"bench", done, "operator gemm --shape m=8,n=8,k=8 --time-limit 0.01"},
      {"bench", bad_input, "abacus"},
      {"bench", rank_failed, bench + kFull},
      {"calibrate", bad_input, "--backend abacus"},
      {"calibrate", rank_failed, "--json", "PATH=/nowhere;"},
      {"compare", done, "out"},
      {"compare", regressed, "two one"},
      {"compare", bad_input, "nowhere"},
      {"compare", rank_failed, "out" + kFull},
      {"history", done, demo + " " + demo},
      {"history", regressed, demo + " larger.jsonl"},
      {"history", bad_input, "nowhere nowhere"},
      {"history", rank_failed, demo + " " + demo + kFull},
      {"completion", done, "bash"},
      {"completion", bad_input, "abacus"},
      {"completion", rank_failed, "bash" + kFull},
      {"convert", done, golden + " tp2 --tp 2"},
      {"convert", regressed, golden + " other_tp2 --check"},
      {"convert", bad_input, "nowhere tp2"},
      {"convert", rank_failed, golden + " tp1 --tp 1", "ulimit -f 20; trap '' XFSZ;"},
      {"diagnose", done, "trace.json"},
      {"diagnose", bad_input, "nowhere"},
      {"diagnose", rank_failed, "trace.json" + kFull},
      {"doctor", done, ""},
      {"doctor", regressed, "--hosts hosts --config pair.yaml" + kModel},
      {"doctor", regressed, "--nodes --slow-rank 1 --slow-factor 2 --time-limit 0.05"},
      {"doctor", bad_input, "--ranks 2"},
      {"doctor", bad_input, "--hosts nowhere --config pair.yaml"},
      {"doctor", rank_failed, kFull},
      {"explain-config", done, "run.yaml"},
      {"explain-config", bad_input, "nowhere"},
      {"explain-config", rank_failed, "run.yaml" + kFull},
      {"export", done, eight + " --to megatron-lm"},
      {"export", bad_input, eight + " --to abacus"},
      {"export", rank_failed, eight + " --to megatron-lm" + kFull},
      {"generate", done, generation},
      {"generate", bad_input, generation + " --tp 3"},
      {"generate", does_not_fit, generation + " --memory-budget 1KiB"},
      {"generate", rank_failed, generation + kFull},
      {"generate", timed_out, generation + " --timeout-s 0.001"},
      {"goodput", done, eight},
      {"goodput", bad_input, "nowhere"},
      {"goodput", does_not_fit, seventy},
      {"goodput", rank_failed, eight + kFull},
      {"help", done, "run"},
      {"help", bad_input, "abacus"},
      {"help", rank_failed, "run" + kFull},
      {"import-bench", done, import},
      {"import-bench", bad_input, "nowhere"},
      {"import-bench", rank_failed, import + kFull},
      {"list", done, "models"},
      {"list", bad_input, "abacus"},
      {"list", rank_failed, "models" + kFull},
      {"matrix", done, "run.yaml --out m0"},
      {"matrix", bad_input, "nowhere.yaml"},
      {"matrix", rank_failed, "run.yaml --out m4 --data nowhere.npy"},
      {"matrix", timed_out, "long.yaml --out m5"},
      {"calibrate", done, "--noise --minutes 0.05 --out noise.csv"},
      {"calibrate", bad_input, "--noise --minutes 0"},
      {"calibrate", rank_failed, "--noise --minutes 0.05 --out full.csv"},
      {"oom", done, "run.yaml --out o0"},
      {"oom", bad_input, "nowhere.yaml"},
      {"oom", rank_failed, "run.yaml --out o4 --data nowhere.npy"},
      {"oom", timed_out, "long.yaml --out o5"},
      {"operator", done, "gemm --m 512 --n 512 --k 512" + kModel},
      {"operator", bad_input, "abacus"},
      {"operator", rank_failed, "gemm --m 512 --n 512 --k 512" + kModel + kFull},
      {"predict", done, eight},
      {"predict", bad_input, "nowhere"},
      {"predict", does_not_fit, seventy},
      {"predict", rank_failed, eight + kFull},
      {"run", done, "run.yaml"},
      {"run", bad_input, "run.yaml --tp 3"},
      {"run", does_not_fit, "run.yaml --memory-budget 1KiB"},
      {"run", rank_failed, "run.yaml --json --trace full.csv"},
      {"run", timed_out, "long.yaml"},
      {"schedule", done, pipeline},
      {"schedule", bad_input, "abacus --pp 2 --microbatches 4"},
      {"schedule", rank_failed, pipeline + kFull},
      {"search", done, "llama-3.1-8b --gpus 8 --gbs 8 --top 1" + kModel},
      {"search", bad_input, "llama-3.1-8b --gpus 8"},
      {"search", does_not_fit, "llama-3.1-405b --gpus 1 --gbs 1" + kModel},
      {"search", rank_failed, "llama-3.1-8b --gpus 8 --gbs 8 --top 1" + kModel + kFull},
      {"search", timed_out, "llama-3.1-70b --gpus 512 --gbs 512 --threads 1 --deadline 0.000001" + kModel},
      {"simulate", done, "--schedule " + pipeline + " --costs costs.json"},
      {"simulate", bad_input, "--schedule " + pipeline + " --costs nowhere.json"},
      {"simulate", rank_failed, "--schedule " + pipeline + " --costs costs.json --svg full.csv"},
      {"size", done, sized},
      {"size", bad_input, "llama-3.1-8b --tokens 1B"},
      {"size", does_not_fit, "llama-3.1-405b --tokens 1B --gpus 8 --gbs 8" + kModel},
      {"size", rank_failed, sized + kFull},
      {"size", timed_out, sized + " --deadline 0.000001"},
      {"stragglers", done, eight + " --jitter 2"},
      {"stragglers", bad_input, "nowhere"},
      {"stragglers", rank_failed, eight + " --jitter 2" + kFull},
      {"topology", done, "superpod-b200:4 --tp 8"},
      {"topology", bad_input, "nowhere.conf"},
      {"topology", rank_failed, "superpod-b200:4 --tp 8" + kFull},
      {"validate", done, "--table korthikanti_table5"},
      {"validate", bad_input, "--tables nowhere"},
      {"validate", rank_failed, "--table korthikanti_table5" + kFull},
      {"", done, "--version"},
      {"", bad_input, "abacus"},
      {"", rank_failed, "--version" + kFull},
  };
}

/// Reached by tests of their own: it measures for more than a minute; elements are wrong.
const std::set<std::pair<std::string, ExitCode>> kElsewhere = {{"calibrate", done}, {"bench", regressed}};

class ExitCodes : public ProgramFolder {
 protected:
  ExitCodes() {
    const std::string run = kSmallRun;
    write("run.yaml", run + "steps: 2\n");
    write("long.yaml", run + "steps: 1000000\ntimeout_s: 3\n");
    write("hosts", this_host() + " slots=2\n");
    write("pair.yaml", run + "tensor_model_parallel_size: 2\n");
    write("sizes.csv", "collective,ranks,rankspernode,size,time\nAllReduce,8,8,1024,20\n");
    write("trace.json",
          R"([{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}])");
    write("costs.json", R"({"stages": [{"forward_us": 100, "backward_us": 200}]})");
    fs::create_symlink("/dev/full", folder_ / "full.csv");
  }

  /// Differences for `compare` and `convert --check`.
  void make_differences() {
    ASSERT_EQ(plumbline("matrix run.yaml --predict-only --out out").exit_code, 0);
    write("two.yaml", kSmallRun + std::string("matrix: {micro_batch_size: [1, 2]}\n"));
    ASSERT_EQ(plumbline("matrix two.yaml --predict-only --out two").exit_code, 0);
    const std::string two = read("two/predictions.jsonl");
    write("one/predictions.jsonl", two.substr(0, two.find('\n') + 1));
    std::istringstream lines(read(PLUMBLINE_SOURCE_DIR "/results/recorded/epyc-2-cores/demo.jsonl"));
    std::string larger;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("measurement") && record["measurement"].is_object()) {
        nlohmann::json& peak = record["measurement"]["memory"]["peak_bytes"];
        peak = 2 * peak.get<std::int64_t>();
      }
      larger += record.dump() + '\n';
    }
    write("larger.jsonl", larger);
    const std::string golden = PLUMBLINE_SOURCE_DIR "/tests/golden/llama";
    ASSERT_EQ(plumbline("convert " + golden + " other_tp2 --tp 2").exit_code, 0);
    std::string config = read("other_tp2/config.json");
    const std::string key = "\"rope_theta\": ";
    ASSERT_NE(config.find(key), std::string::npos);
    write("other_tp2/config.json", config.insert(config.find(key) + key.size(), "9"));
  }
};

TEST_F(ExitCodes, EachThatTheManualListsIsReached) {
  std::map<std::string, std::set<ExitCode>> reached, listed;
  make_differences();
  for (const Case& c : all_cases()) {
    SCOPED_TRACE("plumbline " + c.command + " " + c.arguments);
    const Said said = plumbline("--quiet " + c.command + " " + c.arguments, c.before);
    EXPECT_EQ(said.exit_code, static_cast<int>(c.code)) << said.err;
    if (c.code != done && c.code != regressed) {
      EXPECT_THAT(said.err, testing::HasSubstr("plumbline: "));
    }
    reached[c.command].insert(c.code);
    reached[""].insert(c.code);  // the program's own page lists those of its commands
  }
  for (const CommandPage& page : command_pages()) {
    if (page.name == "configuration") continue;
    listed[page.name] = {page.exit_codes.begin(), page.exit_codes.end()};
  }
  for (const auto& [command, code] : kElsewhere) reached[command].insert(code);
  EXPECT_EQ(reached, listed);
}

}  // namespace
}  // namespace plumbline::exit_codes_test
