// Text of files that others wrote: no printed text controls a terminal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/hardware/hardware.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "core/base/escaped_controls.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::hostile_text_test {
namespace {

// A title, a bell, a C1 control, two changes of the direction of writing, a delete.
const std::string kHostile =
    "\x1b]0;owned\x07\x1b[2J\xc2\x9b"
    "31m\xe2\x80\xae"
    "abc\xe2\x81\xa7\xd8\x9c\x7f";

const std::string kRun = std::string(kSmallRun) + "steps: 1\n";

class HostileText : public ProgramFolder {
 protected:
  static std::string json_of(const std::string& text) { return nlohmann::json(text).dump(); }
  /// Fails where a terminal would obey a part of the output.
  void expect_harmless(const std::string& command, int exit_code = -1) const {
    const Said said = plumbline(command);
    if (exit_code >= 0) {
      EXPECT_EQ(said.exit_code, exit_code) << command << ": " << said.err;
    }
    for (const std::string& text : {said.out, said.err})
      EXPECT_EQ(escaped_controls(text), text) << command << " ends with " << said.exit_code;
    EXPECT_LT(said.exit_code, 6) << command;
  }
};

TEST_F(HostileText, OfRecords) {
  write("run.yaml", kRun + std::string("matrix: {micro_batch_size: [1, 2]}\n"));
  ASSERT_EQ(plumbline("matrix run.yaml --predict-only --out out --quiet").exit_code, 0) << read("err.txt");
  ASSERT_EQ(plumbline("compare out").exit_code, 0);
  std::istringstream lines(read("out/predictions.jsonl"));
  std::string hostile;
  std::string other;
  for (std::string line; std::getline(lines, line);) {
    auto record = nlohmann::ordered_json::parse(line);
    record["reason"] = kHostile;
    for (auto& [key, value] : record["config"].items()) {
      if (key == "pipeline_schedule" || key == "precision") value = kHostile;
    }
    record["config"][kHostile] = kHostile;
    for (const char* key : {"host", "cpu", "gpu"}) record["machine"][key] = kHostile;
    for (const char* key : {"versions", "environment"}) record["machine"][key][kHostile] = kHostile;
    hostile += record.dump() + "\n";
    record["id"] = kHostile;
    other += record.dump() + "\n";
  }
  write("hostile.jsonl", hostile);
  write("other.jsonl", other);
  for (const char* file : {"hostile.jsonl", "other.jsonl"}) {
    for (const char* format : {"table", "csv", "json", "html", "megatron-bridge", "google-benchmark"})
      expect_harmless(fmt::format("compare {} --format {}", file, format));
    for (const char* format : {"table", "csv", "json"})
      expect_harmless(fmt::format("compare hostile.jsonl {} --format {}", file, format));
  }
  EXPECT_THAT(plumbline("compare hostile.jsonl --format csv").out,
              testing::HasSubstr("\\u001b]0;owned\\u0007"));
}

// Names that commands print although all is well.
TEST_F(HostileText, OfNames) {
  auto named = nlohmann::ordered_json::parse(to_json(rough_guess()));
  named["name"] = kHostile;
  EXPECT_EQ(escaped_controls(to_json(parse_hardware(named.dump(), "test"))),
            to_json(parse_hardware(named.dump(), "test")));
  write("profile.json", named.dump());
  write(kHostile + ".yaml", kRun);
  write(kHostile + "oom.yaml",
        kRun + std::string("memory_budget: 1GiB\nmatrix: {micro_batch_size: [1, 2]}\npublished: {source: ") +
            json_of(kHostile) + ", cells: [{micro_batch_size: [1, 2], status: ok}]}\n");
  auto schedule =
      nlohmann::ordered_json::parse(plumbline("schedule 1f1b --pp 2 --microbatches 2 --format json").out);
  schedule["name"] = kHostile;
  write(kHostile + ".schedule.json", schedule.dump());
  write("costs.json", R"({"stages": [{"forward_us": 100, "backward_us": 200}], "p2p_us": 5})");

  for (const char* command :
       {"predict '{0}.yaml' --hardware ./profile.json",
        "predict '{0}.yaml' --hardware ./profile.json --json",
        "predict '{0}.yaml' --hardware ./profile.json --explain",
        "run '{0}.yaml' --hardware ./profile.json",
        "run '{0}.yaml' --hardware ./profile.json --timeline",
        "run '{0}.yaml' --hardware ./profile.json --trace '{0}.trace.json'",
        "matrix '{0}.yaml' --hardware ./profile.json --out '{0}'",
        "oom '{0}oom.yaml' --predict-only --hardware ./profile.json",
        "oom '{0}oom.yaml' --predict-only --hardware ./profile.json --json",
        "search '{0}.yaml' --gpus 2 --hardware ./profile.json",
        "search '{0}.yaml' --gpus 2 --hardware ./profile.json --json",
        "schedule '{0}.schedule.json'",
        "schedule '{0}.schedule.json' --format json",
        "schedule '{0}.schedule.json' --format csv",
        "simulate '{0}.schedule.json' --costs costs.json",
        "simulate '{0}.schedule.json' --costs costs.json --json",
        "simulate '{0}.schedule.json' --costs costs.json --trace out.json --svg out.svg",
        "compare '{0}'",
        "compare '{0}' --format json",
        "compare '{0}' --format html",
        "compare '{0}' '{0}'"}) {
    expect_harmless(fmt::format(fmt::runtime(command), kHostile), 0);
  }
  for (const std::string& file : {kHostile + "/results.jsonl", kHostile + ".trace.json",
                                  std::string("out.json"), std::string("out.svg")}) {
    EXPECT_NE(read(file), "");
    EXPECT_EQ(escaped_controls(read(file)), read(file)) << file;
  }
  for (const char* command : {"goodput '{0}.yaml' --hardware ./profile.json --json",
                              "topology '{0}.yaml' --hardware ./profile.json --json",
                              "stragglers '{0}.yaml' --hardware ./profile.json --json",
                              "convert '{0}' '{0}.out' --json", "validate '{0}'"})
    expect_harmless(fmt::format(fmt::runtime(command), kHostile));
}

TEST_F(HostileText, OfConfigurationsProfilesAndSchedules) {
  write("model.json",
        fmt::format(R"({{"model_type": {0}, "architectures": [{0}], {0}: {0}}})", json_of(kHostile)));
  write("model.yaml", "model: model.json\nseq_length: 16\n");
  write("key.yaml", fmt::format("{{{0}: {0}, precision: {0}, model: {0}}}\n", json_of(kHostile)));
  write("value.yaml",
        fmt::format("{{model: qwen2.5-0.5b, pipeline_schedule: {0}, seq_length: 16}}\n", json_of(kHostile)));
  write("hardware.json", fmt::format(R"({{"name": {0}, {0}: {0}}})", json_of(kHostile)));
  write("costs.json", fmt::format(R"({{"stages": {0}, {0}: 1}})", json_of(kHostile)));
  write("bad.csv", kHostile + "," + kHostile + "\n" + kHostile + "\n");
  write("bad.json", fmt::format(R"({{"schedule": {0}, {0}: [{0}]}})", json_of(kHostile)));
  for (const char* command :
       {"predict model.yaml", "predict key.yaml", "predict value.yaml", "predict key.yaml --json",
        "predict qwen2.5-0.5b --hardware ./hardware.json",
        "predict qwen2.5-0.5b --hardware ./hardware.json --json",
        "simulate --schedule 1f1b --pp 2 --microbatches 2 --costs costs.json", "schedule bad.csv",
        "schedule bad.json", "compare bad.json", "compare bad.csv", "stragglers bad.json",
        "topology bad.json", "convert bad.json out", "validate --tables ."}) {
    expect_harmless(command);
  }
  const std::string quoted =
      "\"$(printf '"
      "\\033]0;x\\007\\302\\233m"
      "')\"";
  for (const char* command : {"predict {}", "run {}", "schedule {}", "help {}", "compare {} {}", "--{}", "{}",
                              "predict --set {}=1"})
    expect_harmless(fmt::format(fmt::runtime(command), quoted, quoted));
}

}  // namespace
}  // namespace plumbline::hostile_text_test
