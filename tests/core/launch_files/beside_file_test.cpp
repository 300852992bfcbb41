// Values that a launch script leaves to its environment, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::beside_file_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kShape =
    " --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 4096 --bf16 "
    "--vocab-size 32000 --micro-batch-size 1";

class BesideFile : public testing::Test {
 protected:
  BesideFile() : path_(fs::path(testing::TempDir()) / "train.sh") {}
  ~BesideFile() override { fs::remove(path_); }
  RunConfig load(const std::string& script, const Overrides& given) {
    std::ofstream(path_) << script << kShape << "\n";
    return load_run_config(path_.string(), given);
  }
  std::string refusal(const std::string& script, const Overrides& given) {
    try {
      load(script, given);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  fs::path path_;
};

TEST_F(BesideFile, OptionsAndVariablesFillAScript) {
  struct Case {
    const char* script;
    Overrides given;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {"torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"tp", "2", "--tp"}},
       "tensor_model_parallel_size",
       "2"},
      {"torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "4"},
      {"torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size ${TP:-8}",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "4"},
      {"torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size ${TP:-8}",
       {},
       "tensor_model_parallel_size",
       "8"},
      {"torchrun pretrain_gpt.py --seq-length $SEQ", {{"seq_length", "2048"}}, "seq_length", "2048"},
      {"torchrun pretrain_gpt.py --seq-length $((SEQ * $K))",
       {{"SEQ", "512"}, {"K", "4"}},
       "seq_length",
       "2048"},
      // In place of the script's own first assignment, unless something has read the variable before.
      {"TP=2\ntorchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "4"},
      {"TP=2\nTP=$((TP * 2))\ntorchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "8"},
      {"TP=${TP:-2}\ntorchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "4"},
      {"OLD=$TP\nTP=2\ntorchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}},
       "tensor_model_parallel_size",
       "2"},
      // The option counts over the script's value.
      {"torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
       {{"TP", "4"}, {"tp", "2"}},
       "tensor_model_parallel_size",
       "2"},
      {"torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 pretrain_gpt.py --seq-length 8",
       {{"SLURM_NNODES", "4"}},
       "world_size",
       "32"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.script);
    EXPECT_EQ(find_config_key(each.key)->print(load(each.script, each.given)), each.value);
  }
}

/// A search chooses sizes itself, so it is no refusal; the origin and the way out are said.
TEST_F(BesideFile, GpusOfTheLauncherThatSuitNoSizesAreANote) {
  const char* const script =
      "NNODES=1\ntorchrun --nnodes $NNODES --nproc-per-node 8 pretrain_gpt.py --seq-length 8 "
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size ";
  const auto notes_with = [&](const char* stages, const Overrides& given) {
    load(std::string(script) + stages, given);
    std::string notes;
    load_run_config(path_.string(), given, &notes);
    return notes;
  };
  EXPECT_THAT(
      notes_with("4", {}),
      HasSubstr("train.sh:2: GPUs that the launcher starts: 8; --gpus N or --set NNODES=N gives another"));
  EXPECT_THAT(notes_with("1", {}), Not(HasSubstr("--set NNODES")));
  EXPECT_THAT(notes_with("4", {{"gpus", "32"}}), Not(HasSubstr("--set NNODES")));
}

/// A value that is refused, and the options that say what it would.
TEST_F(BesideFile, OptionsRescueAFileRefusedForItsOwnValue) {
  struct Case {
    const char* flags;
    Overrides given;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {"--seq-length many", {{"seq_length", "2048"}}, "seq_length", "2048"},
      {"", {{"seq_length", "2048"}}, "seq_length", "2048"},
      {"--seq-length 8 --pipeline-model-parallel-size 5",
       {{"pipeline_model_parallel_size", "4"}},
       "pipeline_model_parallel_size",
       "4"},
      {"--seq-length 8 --recompute-granularity full --recompute-method x",
       {{"recompute_method", "uniform"}, {"recompute_num_layers", "2"}, {"recompute_granularity", "full"}},
       "recompute_num_layers",
       "2"},
      {"--seq-length 8 --attention-backend x",
       {{"attention_backend", "unfused"}},
       "attention_backend",
       "unfused"},
      {"--seq-length 8 --bf16 --fp16", {{"precision", "bf16"}}, "precision", "bf16"},
      {"--seq-length 8 --group-query-attention --num-query-groups $G",
       {{"model", "llama-2-7b"}},
       "seq_length",
       "8"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.flags);
    const std::string script = std::string("torchrun pretrain_gpt.py") + kShape + " " + each.flags;
    EXPECT_NE(refusal(script, {}), "accepted");
    EXPECT_EQ(find_config_key(each.key)->print(load(script, each.given)), each.value);
  }
  // An option about something else rescues nothing, and the first reason is told.
  const std::string script = std::string("torchrun pretrain_gpt.py") + kShape + " --seq-length many";
  EXPECT_THAT(refusal(script, {{"precision", "bf16"}}), HasSubstr("seq_length: found \"many\""));
}

TEST_F(BesideFile, AllRefusalsAreToldAtOnceAndIgnoredOnesLeftOut) {
  struct Case {
    const char* flags;
    std::vector<const char*> told;  // each with the way out
  };
  const Case cases[] = {
      {"--softmax-type learnable", {"--softmax-type: not modelled", "remove it", "--ignore softmax-type"}},
      {"--foo 1 --bar", {"--foo: unknown", "--bar: unknown", "remove them", "--ignore bar"}},
      {"--bf16 --fp16 --recompute-granularity full --recompute-method x --foo",
       {"--fp16: found with --bf16", "--recompute-method: found \"x\"", "--foo: unknown", "--ignore foo"}},
      {"--micro-batch-size $B --tensor-model-parallel-size $T",
       {"found \"$B\"", "give --micro-batch-size", "found \"$T\"", "give --tensor-model-parallel-size"}},
  };
  for (const Case& each : cases) {
    const std::string script =
        std::string("torchrun pretrain_gpt.py") + kShape + " --seq-length 8 " + each.flags;
    std::ofstream(path_) << script << "\n";
    std::string refused = "accepted";
    try {
      load_run_config(path_.string(), {});
    } catch (const InputError& error) {
      refused = error.what();
    }
    for (const char* told : each.told) EXPECT_THAT(refused, HasSubstr(told));
    EXPECT_THAT(refused, testing::Not(HasSubstr("missing"))) << "follows from another fault";
  }
  const auto ignoring = [&](std::initializer_list<const char*> names) {
    Overrides all;
    for (const char* name : names) all.push_back({name, "", "--ignore", true});
    return refusal("torchrun pretrain_gpt.py --seq-length 8 --foo 1 --use-bar", all);
  };
  EXPECT_EQ(ignoring({"foo", "use-bar"}), "accepted");
  EXPECT_EQ(ignoring({"--foo", "use_bar"}), "accepted");
  EXPECT_THAT(ignoring({"foo"}), HasSubstr("--use-bar: unknown"));
  EXPECT_THAT(ignoring({"foo", "use-bar", "bax"}), HasSubstr("--ignore: found bax, expected an argument of"));
}

TEST_F(BesideFile, UnknownKeysAreToldAtOnceAndIgnored) {
  const fs::path run = fs::path(testing::TempDir()) / "ignored.yaml";
  std::ofstream(run) << "model: llama-2-7b\nlr: 1\nwandb: x\nseq_length: 8\n";
  const auto read = [&](const Overrides& given) {
    try {
      std::string note;
      load_run_config(run.string(), given, &note);
      return note;
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(read({}), testing::AllOf(HasSubstr(":2: found the unknown key \"lr\""), HasSubstr(":3: wandb"),
                                       HasSubstr("--ignore KEY")));
  EXPECT_THAT(read({{"lr", "", "--ignore", true}, {"wandb", "", "--ignore", true}}),
              testing::AllOf(HasSubstr(":2: lr: left out by --ignore"), HasSubstr(":3: wandb: left out")));
  EXPECT_THAT(read({{"gpus", "", "--ignore", true}}),
              HasSubstr("--ignore: found gpus, expected an argument of"));
  fs::remove(run);
}

TEST_F(BesideFile, DefaultsThatTheNumberOfGpusFollowsFromAreNamed) {
  const std::string start = "N=${SLURM_NNODES:-1}\nM=${MASTER_PORT:-6000}\ntorchrun --nnodes $N ";
  const std::string end = "--nproc_per_node 8 --master_port $M pretrain_gpt.py --seq-length 8";
  const auto notes = [&](const Overrides& given, const std::string& more) {
    std::ofstream(path_) << start << end << kShape << more << "\n";
    std::string note;
    load_run_config(path_.string(), given, &note);
    return note;
  };
  const auto named = HasSubstr(
      "train.sh:1: ${SLURM_NNODES:-1} is taken as 1, which makes 8 GPUs; --gpus N or --set SLURM_NNODES=N");
  EXPECT_THAT(notes({}, ""), testing::AllOf(named, testing::Not(HasSubstr("MASTER_PORT"))));
  for (const Override& given : {Override{"world_size", "16"}, {"SLURM_NNODES", "2"}})
    EXPECT_THAT(notes({given}, ""), testing::Not(HasSubstr("SLURM_NNODES"))) << given.key;
}

TEST_F(BesideFile, NamesThatTheScriptDoesNotReadAreKeysOfNoConfiguration) {
  const std::string script = "torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TPS";
  EXPECT_THAT(refusal(script, {{"TP", "4"}}), HasSubstr("found the unknown key \"TP\""));
  EXPECT_THAT(refusal(script, {{"T P", "4"}}), HasSubstr("found the unknown key"));
  EXPECT_THAT(refusal(script, {}), testing::AllOf(HasSubstr("--tensor-model-parallel-size: found \"$TPS\""),
                                                  HasSubstr("or give --tensor-model-parallel-size")));
}

}  // namespace
}  // namespace plumbline::beside_file_test
