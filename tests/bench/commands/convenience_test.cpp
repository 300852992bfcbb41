// User conveniences: bare switches, repeated options, short names, units, and the output of `list`.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::convenience_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Convenience : public ProgramFolder {
 protected:
  json config_of(const std::string& arguments) const {
    const Said said = plumbline("predict llama-3.1-8b --gpus 8 --gbs 8 --json " + arguments);
    EXPECT_EQ(said.exit_code, 0) << arguments << said.err;
    return said.exit_code == 0 ? json::parse(said.out)["config"] : json();
  }
};

TEST_F(Convenience, OptionsAreTakenAsPeopleGiveThem) {
  struct Case {
    const char* arguments;
    const char* key;
    json value;
  };
  const std::string h100 = " --hardware h100-sxm-80gb ";
  const std::vector<Case> cases = {
      {"--tp 8 --sequence-parallel", "sequence_parallel", true},
      {"--sequence-parallel --tp 8", "sequence_parallel", true},
      {"--tp 8 --sequence-parallel false", "sequence_parallel", false},
      {"--tp 8 --sequence-parallel=true --sequence-parallel=false", "sequence_parallel", false},
      {"--tp 8 --overlap-grad-reduce", "overlap_grad_reduce", true},
      {"--tp 2 --tp 8", "tensor_model_parallel_size", 8},
      {"--tensor-model-parallel-size 2 --tp 8", "tensor_model_parallel_size", 8},
      {"--set tp=2 --set tp=8", "tensor_model_parallel_size", 8},
      {"--tp 8 --memory-budget 80GiB", "memory_budget", 85899345920},
      {"--tp 8 --memory-budget 85899345920", "memory_budget", 85899345920},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arguments);
    EXPECT_EQ(config_of(h100 + c.arguments)[c.key], c.value);
  }
  EXPECT_EQ(plumbline("predict --parameters 7.5B --dp 64").out,
            plumbline("predict --parameters 7.5e9 --dp 64").out);
  EXPECT_EQ(plumbline("predict --parameters 70b").exit_code, 0);
}

TEST_F(Convenience, ShortNamesOfAcceleratorsResolveWithANote) {
  struct Case {
    const char* name;
    const char* preset;
  };
  for (const Case& c :
       {Case{"h100", "h100-sxm-80gb"}, Case{"H100", "h100-sxm-80gb"}, Case{"h100-pcie", "h100-pcie-80gb"},
        Case{"h200", "h200-sxm-141gb"}, Case{"a100", "a100-sxm-80gb"}, Case{"a100-40gb", "a100-sxm-40gb"},
        Case{"b200", "b200-sxm-180gb"}, Case{"gb200", "gb200-nvl72"}, Case{"mi300", "mi300x"},
        Case{"rtx4090", "rtx-4090-24gb"}, Case{"5090", "rtx-5090-32gb"}, Case{"a6000", "rtx-a6000-48gb"},
        Case{"l4", "l4-24gb"}, Case{"a800", "a800-sxm-80gb"}}) {
    SCOPED_TRACE(c.name);
    const std::string line = fmt::format("llama-3.1-8b --gpus 8 --tp 8 --gbs 8 --hardware {} ", c.name);
    const Said said = plumbline("predict --json " + line);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(json::parse(said.out)["config"]["hardware"], c.preset);
    EXPECT_THAT(said.err, HasSubstr(fmt::format("note: hardware: {} stands for {}", c.name, c.preset)));
  }
  const Said matrix =
      plumbline("matrix llama-3.1-8b --gpus 8 --tp 8 --gbs 8 --hardware h100 --predict-only --out o --json");
  EXPECT_EQ(json::parse(matrix.out)[0]["config"]["hardware"], "h100-sxm-80gb") << matrix.err;
  EXPECT_EQ(plumbline("search llama-3.1-8b --gpus 8 --gbs 8 --top 1 --hardware h100").exit_code, 0);
  for (const char* name : {"h1000", "h", "abacus", "h100-sxm-70gb"}) {
    const Said unknown = plumbline(fmt::format("predict llama-3.1-8b --hardware {}", name));
    EXPECT_EQ(unknown.exit_code, 2) << name;
    EXPECT_THAT(unknown.err, HasSubstr("expected one of a10-24gb, a100-pcie-80gb")) << name;
  }
}

TEST_F(Convenience, RefusalsSayWhatToChange) {
  write("run.yaml", "model: gpt2-124m\n");
  struct Case {
    const char* arguments;
    std::vector<const char*> says;
  };
  const std::vector<Case> cases = {
      {"predict llama-3.1-8b --hardware h100-sxm-80gb --memory-budget 80",
       {"--memory-budget: memory_budget: found \"80\", expected a unit: write 80GiB, or 80B"}},
      {"predict --parameters 7.5X", {"found \"7.5X\"", "7.5e9 or 7.5B"}},
      {"predict llama-3.1-8b --hardware h100-sxm-80gb --software torchtitan --precision fp8",
       {"fp8_format", "torchtitan", "software: torchtitan-float8"}},
      {"predict llama-3.1-8b --hardware h100-sxm-80gb --software megatron-core-2024 --precision fp8 "
       "--fp8-recipe "
       "mxfp8",
       {"fp8_recipe: found mxfp8 with megatron-core-2024, expected delayed"}},
      {"predict llama-3.1-8b --recompute full", {"did you mean --recompute-", "--recompute-granularity"}},
      {"predict llama-3.1-8b --vpp 2", {"did you mean --virtual-pipeline-chunks?"}},
      {"predict llama-3.1-8b tp=2", {"found the argument \"tp=2\"", "write --set tp=2"}},
      {"predict llama-3.1-8b --tp 2 --sequence-parallel yes", {"found \"yes\", expected true or false"}},
      {"compare run.yaml", {"run.yaml: found a configuration, expected records"}},
      {"compare nofolder", {"nofolder: found no such file or folder", "`matrix`", ".jsonl"}},
      {"schedule 1f1b --pp 2 --microbatches 4 --compare gpipe --format svg",
       {"--compare with --format svg", "text, csv or json"}},
      {"list", {"list: kind: missing, expected Kind of names", "plumbline help list"}},
      {"compare", {"compare: DIR: missing, expected Folder written by `matrix`, or a .jsonl file"}},
      {"predict llama-3.1-8b --memory-budget 80G",
       {"found \"80G\", expected bytes such as", "; write 80GiB or 80GB"}},
      {"predict llama-3.1-8b --seq-length 8k",
       {"seq_length: found \"8k\", expected a whole number", "; write 8192"}},
      {"predict llama-3.1-8b --hardware h100-sxm-80gb --software megatron",
       {"software: found megatron, expected one of deepspeed",
        "; write megatron-bridge or megatron-bridge-fsdp or megatron-core"}},
      {"list gpus", {"hardware"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Said said = plumbline(c.arguments);
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_EQ(said.out, "");
    for (const char* part : c.says) EXPECT_THAT(said.err, HasSubstr(part));
  }
}

TEST_F(Convenience, SchedulesAreComparedForPrograms) {
  for (const char* names : {"1f1b --compare gpipe,zb-h1", "--compare 1f1b,gpipe,zb-h1"}) {
    const std::string line = fmt::format("schedule {} --pp 4 --microbatches 8 --format ", names);
    const Said csv = plumbline(line + "csv");
    EXPECT_THAT(csv.out, testing::StartsWith("schedule,units,bubble_ratio,bubble_fraction,"));
    EXPECT_THAT(csv.out, HasSubstr("\r\ngpipe,33,0.375,"));
    EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 4);
    const json rows = json::parse(plumbline(line + "json").out);
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[1]["schedule"], "gpipe");
    EXPECT_EQ(rows[1]["bubble_ratio"], 0.375);
  }
}

TEST_F(Convenience, NoTerminalGetsAProtobuf) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal) + ::unlockpt(terminal), 0);
  const std::string name = ::ptsname(terminal);
  const std::string line = "schedule 1f1b --pp 2 --microbatches 4 --format perfetto ";
  const Said shown = plumbline(line + ">" + name);
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_THAT(shown.err, HasSubstr("found a terminal, expected a file or a pipe"));
  EXPECT_EQ(plumbline(line).exit_code, 0);
  ::close(terminal);
}

TEST_F(Convenience, ListedNamesCanBeUsed) {
  struct Case {
    const char* kind;
    const char* name;
    const char* in_text;
    const char* option;  // that takes every name
  };
  const std::vector<Case> cases = {
      {"models", "llama-3.1-8b", "8.03", ""},
      {"hardware", "h100-sxm-80gb", "79.2", "--hardware"},
      {"software", "megatron-core", "delayed,tensorwise,blockwise,mxfp8", ""},
      {"software", "vllm", "paged KV cache", ""},
      {"schedules", "zb-h1", "I and W", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kind);
    const std::string line = fmt::format("list {}", c.kind);
    const Said text = plumbline(line);
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr(fmt::format("\n{} ", c.name)));
    EXPECT_THAT(text.out, HasSubstr(c.in_text));
    const json rows = json::parse(plumbline(line + " --json").out);
    EXPECT_GT(rows.size(), 10U);
    for (const json& row : rows) {
      EXPECT_THAT(text.out, HasSubstr(row["name"].get<std::string>()));
      if (std::string(c.kind) == "hardware") {
        EXPECT_NE(row["source"], "") << row;
        EXPECT_GT(row["memory_bytes"], 1e10) << row;
      }
      if (*c.option == '\0') continue;
      EXPECT_EQ(plumbline(fmt::format("predict gpt2-124m --seq-length 64 {} {}", c.option,
                                      row["name"].get<std::string>()))
                    .exit_code,
                0)
          << row;
    }
  }
}

TEST_F(Convenience, SoftwareThatStandsForAnotherHasItsInterval) {
  const Said said = plumbline(
      "predict llama-3.1-8b --gpus 8 --tp 8 --gbs 8 --hardware h100-sxm-80gb --software megatron-core");
  EXPECT_THAT(said.out, HasSubstr("published dense runs of megatron-core-2026\n"));
  EXPECT_THAT(said.out, Not(HasSubstr("no published run")));
}

TEST_F(Convenience, LargeJobsAreToldOfSlowMachines) {
  const std::string job = "predict llama-3.1-8b --tp 8 --hardware h100-sxm-80gb --gpus ";
  EXPECT_THAT(plumbline(job + "64").out, Not(HasSubstr("slow machines")));
  EXPECT_THAT(plumbline(job + "1024").out,
              HasSubstr("slow machines: with 0.5 % of them 10 % slower "
                        "(arXiv:2402.15627), 47 % of jobs of this size have one"));
  const json answer = json::parse(plumbline(job + "1024 --json").out);
  const double step = answer["prediction"]["time"]["step_s"];
  EXPECT_NEAR(answer["trust"]["slow_machines"]["step_s"].get<double>(), 1.1 * step, 1e-9 * step);
}

TEST_F(Convenience, AdamwIsAdam) {
  const Said said =
      plumbline("predict llama-3.1-8b --gpus 8 --tp 8 --hardware h100-sxm-80gb --optimizer adamw --json");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("\"optimizer\": \"adam\""));
}

TEST_F(Convenience, OptionsWithoutEffectAreRefused) {
  struct Case {
    const char* command;
    const char* said;
  };
  const std::string job = " llama-3.1-8b --hardware h100 --gpus 8 --gbs 8 --zero-stage 3";
  for (const Case& c : {
           Case{"goodput --drop 20", "--elastic"},
           Case{"goodput --rejoin 20", "--elastic"},
           Case{"stragglers --jitter 2 --slow-factor 1.2", "--slow-share"},
           Case{"stragglers --jitter 2 --slow-link-factor 1.2", "--slow-link-share"},
           Case{"stragglers --jitter 2 --hiccup 1", "--hiccup-share"},
           Case{"stragglers --slow-share 10 --replace 300", "found 300, expected at most the 8 GPUs"},
       }) {
    const std::string command(c.command);
    const std::size_t name = command.find(' ');
    const Said said = plumbline(command.substr(0, name) + job + command.substr(name));
    EXPECT_EQ(said.exit_code, 2) << c.command;
    EXPECT_THAT(said.err, HasSubstr(c.said)) << c.command;
  }
  for (const Case& c : {
           Case{"topology superpod-b200:1 --tp 8 --sizes 64MiB", "--collective"},
           Case{"topology superpod-b200:1 --tp 8 --sharp", "--collective"},
           Case{"topology superpod-b200:1 --gpus-per-node 4", "--slurm"},
           Case{"topology superpod-b200:1 --oversubscription 2", "--slurm"},
           Case{"schedule 1f1b --pp 4 --microbatches 8 --group 3", "group: found 3 with 1f1b"},
           Case{"schedule interleaved --pp 4 --microbatches 8 --memory-limit 3", "expected zb-auto"},
           Case{"list", "models, hardware"},
       }) {
    const Said said = plumbline(c.command);
    EXPECT_EQ(said.exit_code, 2) << c.command;
    EXPECT_THAT(said.err, HasSubstr(c.said)) << c.command;
  }
}

TEST_F(Convenience, LengthsThatAUserMayNotMeanAreNoted) {
  const std::string job = "predict llama-3.1-8b --hardware h100 --gpus 8 --zero-stage 3";
  EXPECT_THAT(plumbline(job).err, HasSubstr("seq_length is not given: 1024 is taken"));
  const Said given = plumbline(job + " --seq-length 4096");
  EXPECT_THAT(given.err, Not(HasSubstr("seq_length")));
  EXPECT_THAT(plumbline(job + " --seq-length 262144").err,
              HasSubstr("seq_length 262144 is longer than the 131072 positions that llama-3.1-8b"));
}

}  // namespace
}  // namespace plumbline::convenience_test
