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
      // The script's own assignment comes later.
      {"TP=2\ntorchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TP",
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

TEST_F(BesideFile, NamesThatTheScriptDoesNotReadAreKeysOfNoConfiguration) {
  const std::string script = "torchrun pretrain_gpt.py --seq-length 8 --tensor-model-parallel-size $TPS";
  EXPECT_THAT(refusal(script, {{"TP", "4"}}), HasSubstr("found the unknown key \"TP\""));
  EXPECT_THAT(refusal(script, {{"T P", "4"}}), HasSubstr("found the unknown key"));
  EXPECT_THAT(refusal(script, {}), testing::AllOf(HasSubstr("--tensor-model-parallel-size: found \"$TPS\""),
                                                  HasSubstr("or --tensor-model-parallel-size")));
}

}  // namespace
}  // namespace plumbline::beside_file_test
