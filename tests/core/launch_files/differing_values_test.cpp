// Arguments that change memory or time in a way that is not predicted: refused, at their defaults accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::differing_values_test {
namespace {

using testing::HasSubstr;

constexpr const char* kMegatron =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
    "--max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 --bf16 ";

/// The first refusal, or the error, of a launch file.
std::string launch_refusal(const std::string& text, const std::string& name) {
  return test::refusal_of([&] { read_launch_file(text, name).value().require_modelled(); });
}

TEST(DifferingValues, OfMegatronFlagsAreRefused) {
  const std::string fsdp = "--use-megatron-fsdp ";
  const std::string pipeline = "--pipeline-model-parallel-size 4 ";
  const std::string chunks = pipeline + "--num-virtual-stages-per-pipeline-rank 2 ";
  const struct {
    std::string flags;
    std::string words;
  } cases[] = {
      {fsdp, "accepted"},
      {fsdp + "--data-parallel-sharding-strategy no_shard", "accepted"},
      {fsdp + "--data-parallel-sharding-strategy optim", "accepted"},
      {fsdp + "--data-parallel-sharding-strategy optim_grads", "accepted"},
      {fsdp + "--data-parallel-sharding-strategy all", "expected one of no_shard, optim"},
      {fsdp + "--fsdp-double-buffer --data-parallel-sharding-strategy optim",
       "not modelled: expected optim_grads_params with it"},
      {"--fine-grained-activation-offloading", "found with no modules, expected --offload-modules"},
      {"--fine-grained-activation-offloading --offload-modules mlp_norm --activation-offload-fraction 0.5",
       "not modelled: expected 1"},
      {"--optimizer-cpu-offload --use-precision-aware-optimizer --exp-avg-dtype bf16", "accepted"},
      {"--optimizer-offload-fraction 0.5 --overlap-cpu-optimizer-d2h-h2d", "accepted"},
      {"--optimizer muon --muon-tp-mode blockwise --muon-nesterov --muon-num-ns-steps 6", "accepted"},
      {"--optimizer dist_muon --overlap-param-gather --overlap-grad-reduce", "accepted"},
      {"--optimizer adam --muon-tp-mode blockwise --muon-scalar-optimizer lion", "accepted"},
      {"--optimizer muon --muon-scalar-optimizer lion", "--muon-scalar-optimizer: not modelled: lion"},
      {"--offload-modules mlp_norm --activation-offload-fraction 0.5", "accepted"},
      {fsdp + "--data-parallel-sharding-strategy optim_grads_params", "accepted"},
      {"--data-parallel-sharding-strategy no_shard", "accepted"},
      {fsdp + "--megatron-fsdp-main-grads-dtype fp32", "--megatron-fsdp-main-grads-dtype: not modelled"},
      {fsdp + "--megatron-fsdp-main-grads-dtype auto", "accepted"},
      {fsdp + "--megatron-fsdp-grad-comm-dtype fp32", "--megatron-fsdp-grad-comm-dtype: not modelled"},
      {fsdp + "--megatron-fsdp-main-params-dtype bf16", "--megatron-fsdp-main-params-dtype: not modelled"},
      {fsdp + "--megatron-fsdp-main-params-dtype fp32", "accepted"},
      {fsdp + "--fsdp-double-buffer --use-nccl-ub", "accepted"},
      {fsdp + "--megatron-fsdp-max-pool-double-buffer", "not modelled: persistent double buffers"},
      {"--fsdp-double-buffer --use-nccl-ub --megatron-fsdp-main-grads-dtype fp32", "accepted"},
      {chunks + "--microbatch-group-size-per-virtual-pipeline-stage 8",
       "--microbatch-group-size-per-virtual-pipeline-stage: not modelled: expected the 4 ranks"},
      {chunks + "--microbatch-group-size-per-virtual-pipeline-stage 4", "accepted"},
      {pipeline + "--microbatch-group-size-per-virtual-pipeline-stage 8", "accepted"},
      {"--pipeline-model-parallel-size 5",
       "--num-layers: found \"32\", expected a multiple of the 5 ranks of --pipeline-model-parallel-size"},
      {"--pipeline-model-parallel-size 5 --pipeline-model-parallel-layout \"Et*6|t*6|t*7|t*7|t*6L\"",
       "accepted"},
      {"--recompute-granularity full",
       "--recompute-granularity: found \"full\", expected --recompute-method"},
      {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "accepted"},
      {"--recompute-granularity selective", "accepted"},
      {"--overlap-param-gather",
       "found with no sharded optimizer, expected --use-distributed-optimizer or --use-megatron-fsdp"},
      {"--num-attention-heads 30",
       "--num-attention-heads: found \"30\", expected a divisor of --hidden-size 4096"},
      {"--num-attention-heads 30 --kv-channels 128 --normalization RMSNorm --swiglu "
       "--position-embedding-type "
       "rope --disable-bias-linear",
       "accepted"},
      {"--group-query-attention --num-query-groups 7",
       "--num-query-groups: found \"7\", expected a divisor of the 32"},
      {"--group-query-attention --num-query-groups 8",
       "--num-query-groups: found LayerNorm with activation gelu_new, learned positions, biases; expected 1 "
       "or as "
       "many"},
      {"--num-experts 4",
       "--num-experts: found LayerNorm with activation gelu_new, learned positions, biases; "
       "expected RMSNorm"},
      {"--num-experts 4 --moe-router-topk 8 --normalization RMSNorm --swiglu --position-embedding-type rope "
       "--disable-bias-linear",
       "--moe-router-topk: found \"8\", expected at most the 4 experts"},
      {"--normalization RMSNorm --quick-geglu --position-embedding-type rope", "--quick-geglu: not modelled"},
      {"--transformer-impl foo", "--transformer-impl: found \"foo\", expected transformer_engine"},
      {"--transformer-impl local", "accepted"},
      {"--recompute-granularity selective --recompute-method uniform",
       "--recompute-method: found \"uniform\", expected none with selective"},
      {"--num-layers-per-virtual-pipeline-stage 4", "expected a --pipeline-model-parallel-size above 1"},
      {"--num-virtual-stages-per-pipeline-rank 1", "accepted"},
      {pipeline + "--num-virtual-stages-per-pipeline-rank 3",
       "--num-virtual-stages-per-pipeline-rank: found \"3\", expected a divisor of the 8 layers of a rank"},
      {pipeline + "--num-virtual-stages-per-pipeline-rank 8", "accepted"},
      {pipeline + "--num-virtual-stages-per-pipeline-rank 16",
       "expected a divisor of the 8 layers of a rank"},
      {pipeline + "--num-virtual-stages-per-pipeline-rank 3 --pipeline-model-parallel-layout "
                  "\"E|(t*3|)*10ttL\"",
       "accepted"},
      {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3 "
       "--decoder-first-pipeline-num-layers 14",
       "expected a multiple of the 3 chunks"},
      {"--use-tp-pp-dp-mapping", "--use-tp-pp-dp-mapping: not modelled: tensor ranks"},
      {"--fp8 e4m3", "nearest known one is --fp8-format"},
      {"--unheard-of-argument 3", "unknown to Megatron-LM's table of arguments; correct or remove it"},
      {"--overlap-param-gather --use-distributed-optimizer", "accepted"},
      {fsdp + "--overlap-param-gather", "accepted"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(launch_refusal(kMegatron + each.flags, "--megatron-args"), HasSubstr(each.words))
        << each.flags;
}

TEST(DifferingValues, OfTrainersAreRefused) {
  const std::string types = R"({"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {)";
  const std::string factory = "model_name_or_path: x/y\nstage: sft\nbf16: true\n";
  const struct {
    std::string text;
    const char* words;
  } cases[] = {
      {types + "\"grad_accum_dtype\": \"fp32\"}}",
       "data_types.grad_accum_dtype: not modelled: fp32; DeepSpeed's"},
      {types + "\"grad_accum_dtype\": \"bf16\"}}", "accepted"},
      {types + "\"grad_accum_dtype\": null}}", "accepted"},
      {types + "\"grad_accum_dtype\": \"fp16\"}}", "expected the model's bf16"},
      {factory + "pure_bf16: true\n", "pure_bf16: not modelled: gradients and optimizer states in 16 bit"},
      {factory + "pure_bf16: false\n", "accepted"},
      {factory + "additional_target: embed_tokens,lm_head\n", "additional_target: not modelled: another"},
      {factory + "additional_target: null\n", "accepted"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(launch_refusal(each.text, "file"), HasSubstr(each.words)) << each.text;
}

/// Gradients without DeepSpeed's own accumulation are shown in the type that is predicted.
TEST(DifferingValues, GradientsAreShownAsPredicted) {
  const char* const texts[] = {
      "model_name_or_path: x/y\nstage: sft\nbf16: true\n",
      "distributed_type: MULTI_GPU\nmixed_precision: fp16\n",
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n",
      R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 0}})",
  };
  for (const char* text : texts) {
    std::vector<std::string> types;
    const LaunchFile file = read_launch_file(text, "file").value();
    for (const LaunchSetting& each : file.settings)
      if (each.key == "grad_dtype") types.push_back(each.value);
    EXPECT_EQ(types, std::vector<std::string>{"same"}) << text;
  }
}

TEST(DifferingValues, ADefaultThatIsRefusedIsNotToBeRemoved) {
  const std::string titan = "[model]\nflavor = \"8B\"\n";
  LaunchFile file;
  file.refused.push_back({"mode", "default of torchtitan", "not modelled: 2", true});
  EXPECT_EQ(test::refusal_of([&] { file.require_modelled(); }),
            "default of torchtitan: mode: not modelled: 2; set another value");
  EXPECT_THAT(launch_refusal(titan + "[training]\nstepz = 1\n", "job.toml"),
              HasSubstr("; correct or remove it"));
  EXPECT_THAT(launch_refusal(titan + "[training]\nmixed_precision_reduce = \"bfloat16\"\n", "job.toml"),
              HasSubstr("reduced in fp32; remove it"));
}

TEST(DifferingValues, DegreesOfTorchtitanDivideTheGpus) {
  const auto loaded = [](const std::string& degrees, const char* gpus) -> std::string {
    const std::string path = testing::TempDir() + "degrees.toml";
    std::ofstream(path)
        << "[model]\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n[parallelism]\n"
        << degrees;
    try {
      return std::to_string(load_run_config(path, {{"gpus", gpus}}).parallel.data());
    } catch (const InputError& error) {
      return error.what();
    }
  };
  const struct {
    const char* degrees;
    const char* gpus;
    const char* words;
  } cases[] = {
      {"data_parallel_shard_degree = 3\n", "16",
       "data_parallel_shard_degree: found 3 replicas in all, expected a divisor of the data-parallel size "
       "16"},
      {"data_parallel_shard_degree = 3\n", "3", "3"},
      {"data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n", "16", "8"},
      {"data_parallel_shard_degree = 4\ndata_parallel_replicate_degree = 4\n", "8", "found 16 replicas"},
      {"data_parallel_replicate_degree = 3\n", "8", "data_parallel_replicate_degree: found 3 replicas"},
      {"data_parallel_shard_degree = -1\n", "16", "16"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(loaded(each.degrees, each.gpus), HasSubstr(each.words)) << each.degrees;
}

TEST(DifferingValues, SectionsOfMegatronBridgeCountInTheFrameworksOrder) {
  const std::string shape =
      "  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n  seq_length: 4096\n"
      "  max_position_embeddings: 4096\n";
  const std::string model = "model:\n" + shape;
  const std::string train = "train:\n  micro_batch_size: 1\n";
  struct Case {
    std::vector<std::string> sections;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {{model + "  vocab_size: 129280\n", "tokenizer:\n  vocab_size: 32000\n"},
       "model",
       "\"vocab_size\":129280"},
      {{model + "  vocab_size: null\n", "tokenizer:\n  vocab_size: 32000\n"},
       "model",
       "\"vocab_size\":32000"},
      {{model + "  vocab_size: 32000\n",
        "ddp:\n  use_distributed_optimizer: true\n  overlap_param_gather: true\n",
        "optimizer:\n  overlap_param_gather: false\n"},
       "overlap_param_gather",
       "true"},
      {{model + "  vocab_size: 32000\n", "ddp:\n  use_distributed_optimizer: false\n",
        "optimizer:\n  use_distributed_optimizer: true\n"},
       "zero_stage",
       "1"},
      {{model + "  vocab_size: 32000\n",
        "ddp:\n  use_distributed_optimizer: true\n  overlap_param_gather: true\n",
        "comm_overlap:\n  overlap_param_gather: false\n"},
       "overlap_param_gather",
       "false"},
      {{model + "  vocab_size: 32000\n  fp8: hybrid\n  fp8_recipe: delayed\n",
        "mixed_precision:\n  fp8: hybrid\n  fp8_recipe: blockwise\n"},
       "fp8_recipe",
       "blockwise"},
      {{model + "  vocab_size: 32000\n  fp8: hybrid\n", "mixed_precision:\n  bf16: true\n  fp8: null\n"},
       "fp8_format",
       ""},
      {{model + "  vocab_size: 32000\n  fp8: hybrid\n", "mixed_precision: bf16_mixed\n"}, "fp8_format", ""},
      {{model + "  vocab_size: 32000\n", "ddp:\n  grad_reduce_in_fp32: true\n",
        "mixed_precision:\n  bf16: true\n  grad_reduce_in_fp32: false\n"},
       "grad_dtype",
       "same"},
      {{model + "  vocab_size: 32000\n", "dataset:\n  seq_length: 4096\n"}, "seq_length", "4096"},
  };
  for (const Case& each : cases) {
    std::vector<std::string> sections = each.sections;
    std::sort(sections.begin(), sections.end());
    do {  // in every order of the file
      std::string text = train;
      for (const std::string& section : sections) text += section;
      std::map<std::string, std::string> settings;
      const LaunchFile file = read_launch_file(text, "run.yaml").value();
      EXPECT_TRUE(file.refused.empty()) << text;
      for (const LaunchSetting& setting : file.settings) settings[setting.key] = setting.value;
      EXPECT_THAT(settings[each.key], HasSubstr(each.value)) << text;
      EXPECT_EQ(settings[each.key].empty(), std::string(each.value).empty()) << text;
    } while (std::next_permutation(sections.begin(), sections.end()));
  }
  // The model's length counts, as in NVIDIA's scripts, with a note; of other sections the file is refused.
  const LaunchFile lengths =
      read_launch_file(train + model + "  vocab_size: 8\ndataset:\n  seq_length: 8192\n", "run.yaml").value();
  EXPECT_THAT(lengths.notes, testing::Contains(HasSubstr("seq_length: found 8192, taken is the model's, ")));
  EXPECT_THAT(launch_refusal(train + "tokenizer:\n  seq_length: 8\ndataset:\n  seq_length: 8192\nmodel:\n  "
                                     "tensor_model_parallel_size: 1\n",
                             "run.yaml"),
              HasSubstr("seq_length: found another one"));
}

}  // namespace
}  // namespace plumbline::differing_values_test
