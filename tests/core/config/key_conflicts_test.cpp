// Keys that contradict each other: every reason names the key.
#include "core/base/error.hpp"
#include "tests/core/config/reasons.hpp"

namespace plumbline::key_conflicts_test {
namespace {

using test::expect_reason;
using test::expect_refusals;
using test::llama;
using test::run_with;

TEST(KeyConflicts, OfSizesAndSwitches) {
  expect_refusals(
      {
          {"tp=2 pp=2 dp=2 gbs=4", ""},
          {"tp=4 make_vocab_size_divisible_by=1", ""},  // two ranks share a key/value head
          {"tp=3", "tensor_model_parallel_size: found 3, expected a divisor of the 4 attention heads"},
          {"tp=8", "tensor_model_parallel_size: found 8"},
          {"pp=5", "pipeline_model_parallel_size: 5 stages"},
          {"pp=2 virtual_pipeline_chunks=3", "6 stages"},
          {"dp=2 gbs=3", "global_batch_size: found 3, expected a multiple of micro_batch_size x data"},
          {"mbs=2 gbs=1", "global_batch_size: found 1"},
          {"world_size=3 tp=2", "world_size: found 3, expected a multiple of"},
          {"tp=2 world_size=1", "world_size: found 1"},
          {"seq_length=100000", ""},  // rotary positions have no end
          {"tp=4 seq_length=6", ""},
          {"tp=4 seq_length=6 sequence_parallel=true", "sequence_parallel: found true with seq_length 6"},
          {"seq_length=7 sequence_parallel=true", ""},  // one tensor rank: not in effect
          {"cp=2 seq_length=12", ""},
          {"cp=2 seq_length=12 prefix_length=4", "context_parallel_size: found 2 with a prefix_length"},
          {"frozen=lora lora_rank=4096", "lora_rank: found 4096, expected at most the hidden size"},
          {"frozen=lora pp=2 vocab_parallel=vocab-1",
           "frozen: found lora with vocab_parallel vocab-1, expected none"},
          {"frozen=lora", ""},
          {"frozen=lora pp=2 pipeline_schedule=zb-h1", ""},
          {"frozen=lora dp=2 zero_stage=2", ""},
          {"frozen=lora dp=2 zero_stage=3",
           "frozen: found lora with zero_stage 3, expected none, or zero_stage 0, 1 or 2"},
          {"cp=2 seq_length=6",
           "context_parallel_size: found 2 with seq_length 6, expected a seq_length that is a multiple of 2 "
           "x"},
          {"cp=2 tp=2 seq_length=16 cp_comm_type=a2a",
           "cp_comm_type: found a2a with context_parallel_size 2 and 1 key/value heads per tensor rank"},
          {"cp=2 seq_length=16 cp_comm_type=a2a", ""},
          {"cp=4 seq_length=16 cp_comm_type=a2a+p2p hierarchical_context_parallel_sizes=2,2", ""},
          {"cp_comm_type=a2a+p2p", ""},  // one rank: nothing to exchange
          {"cp=4 seq_length=16 cp_comm_type=a2a+p2p",
           "hierarchical_context_parallel_sizes: found none with cp_comm_type a2a+p2p, expected two sizes"},
          {"cp=8 seq_length=16 cp_comm_type=a2a+p2p hierarchical_context_parallel_sizes=2,2",
           "hierarchical_context_parallel_sizes: found 2,2 with cp_comm_type a2a+p2p, expected two sizes of "
           "at least 2 that multiply to context_parallel_size 8"},
          {"cp=4 seq_length=16 cp_comm_type=a2a+p2p hierarchical_context_parallel_sizes=4,1",
           "found 4,1 with cp_comm_type a2a+p2p"},
          {"cp=8 seq_length=16 cp_comm_type=a2a+p2p hierarchical_context_parallel_sizes=4,2",
           "cp_comm_type: found a2a+p2p with an exchange of heads over 4 and 2 key/value heads per tensor "
           "rank"},
          {"cp=2 seq_length=16 fp8_format=hybrid",
           "fp8_format: found hybrid with micro_batch_size x seq_length / context_parallel_size = 8, "
           "expected a multiple"},
          {"cp=4 seq_length=16 hierarchical_context_parallel_sizes=2,2",
           "hierarchical_context_parallel_sizes: found 2,2 with cp_comm_type p2p and context_parallel_size "
           "4"},
          {"cp=2 tp=4 seq_length=16 sequence_parallel=true", ""},
          {"cp=2 tp=4 seq_length=12 sequence_parallel=true",
           "sequence_parallel: found true with seq_length 12 over 2 context ranks, expected one that 4"},
          {"tp=2 tp_comm_overlap=true", "tp_comm_overlap: found true with sequence_parallel false"},
          {"tp_comm_overlap=true", ""},
          {"overlap_param_gather=true",
           "overlap_param_gather: found true with zero_stage 0, expected zero_stage 1"},
          {"overlap_param_gather=true software=megatron-core", ""},
          {"overlap_param_gather=true zero_stage=1", ""},
          {"cuda_graph_impl=local cuda_graph_modules=attn,mlp software=megatron-core", ""},
          {"cuda_graph_impl=local cuda_graph_modules=attn, software=megatron-core",
           "cuda_graph_modules: found attn,, expected all or some of attn,mlp"},
          {"cuda_graph_modules=attn software=megatron-core",
           "cuda_graph_modules: found attn with cuda_graph_impl none"},
          {"overlap_moe_expert_parallel_comm=true",
           "overlap_moe_expert_parallel_comm: found true with expert_model_parallel_size 1"},
          {"overlap_moe_expert_parallel_comm=true software=megatron-core",
           "overlap_moe_expert_parallel_comm: found true with expert_model_parallel_size 1"},
          {"num_distributed_optimizer_instances=2 zero_stage=1 world_size=4 gbs=4", ""},
          {"num_distributed_optimizer_instances=4 zero_stage=3 world_size=4 gbs=4", ""},
          {"num_distributed_optimizer_instances=2 world_size=4 gbs=4",
           "num_distributed_optimizer_instances: found 2 with zero_stage 0"},
          {"num_distributed_optimizer_instances=3 zero_stage=2 world_size=4 gbs=4",
           "num_distributed_optimizer_instances: found 3 with 4 ranks that hold the same parameters, "
           "expected a divisor"},
          {"num_distributed_optimizer_instances=2 zero_stage=3 zero_hpz_partition_size=2 world_size=4 gbs=4",
           "zero_hpz_partition_size: found 2 with 2 ranks that hold the same parameters in an instance, "
           "expected a divisor that is less"},
          {"num_distributed_optimizer_instances=2 zero_stage=3 zero_hpz_partition_size=2 world_size=8 gbs=8",
           ""},
          {"num_distributed_optimizer_instances=2 software=megatron-core",
           "num_distributed_optimizer_instances: found 2 with 1 ranks that hold the same parameters"},
          {"num_distributed_optimizer_instances=3 software=megatron-core zero_stage=1",
           "ranks that hold the same parameters, expected a divisor"},
          {"world_size=4 gbs=4 zero_stage=3 zero_hpz_partition_size=2", ""},
          {"world_size=4 gbs=4 zero_stage=2 zero_hpz_partition_size=2",
           "zero_hpz_partition_size: found 2 with zero_stage 2, which keeps parameters whole; expected "
           "zero_stage 3"},
          {"world_size=4 gbs=4 zero_stage=3 zero_hpz_partition_size=3",
           "found 3 with 4 ranks that hold the same parameters, expected a divisor that is less"},
          {"world_size=4 gbs=4 zero_stage=3 zero_hpz_partition_size=4",
           "found 4 with 4 ranks that hold the same parameters, expected a divisor that is less"},
          {"world_size=4 gbs=4 zero_stage=3 zero_hpz_partition_size=2 software=megatron-core",
           "zero_hpz_partition_size: found 2 with software megatron-core, expected 1"},
          {"world_size=8 pp=2 gbs=8 zero_stage=3 zero_hpz_partition_size=2 vocab_parallel=vocab-1", ""},
          {"overlap_param_gather=false overlap_grad_reduce=auto", ""},
          {"overlap_param_gather=true zero_stage=2 pp=2 gbs=2 vocab_parallel=vocab-1", ""},
          {"overlap_param_gather=true zero_stage=3 pp=2 gbs=2 vocab_parallel=vocab-1", ""},
          {"overlap_param_gather=true zero_stage=1 fp8_format=hybrid seq_length=16", ""},
          {"gbs=2000000000", "micro-batches"},
          {"mbs=2000000000 gbs=2000000000", "micro_batch_size"},
      },
      "model=" + llama());
  expect_reason(why_invalid(run_with("model=" + llama(48, 96, 12, 4) + " tp=6")),
                "found 6, expected a divisor or a multiple of the 4 key");
  expect_reason(why_invalid(run_with("model=gpt2-124m seq_length=1025")), "1024 learned positions");
}

TEST(KeyConflicts, EightBitProductsWantMultiplesOfSixteen) {
  const std::string always = "model=" + llama() + " fp8_format=hybrid seq_length=32";
  expect_refusals(
      {
          {"", ""},
          {"tp=2", ""},
          {"seq_length=8 mbs=2 gbs=2", ""},
          {"seq_length=24",
           "fp8_format: found hybrid with micro_batch_size x seq_length = 24, expected a multiple of 16"},
          {"fp8_format=e4m3 tp=4", "fp8_format: found e4m3 with feed-forward columns per tensor rank = 24"},
          {"seq_length=24 fp8_format=none", ""},
      },
      always);
  const std::pair<std::string, const char*> models[] = {
      {"model=" + llama(40, 96, 4, 4, 16), "hidden columns = 40"},
      {"model=" + llama(32, 96, 4, 1) + " tp=4", "query, key and value columns per tensor rank = 24"},
      {"model=" + llama(32, 96, 2, 2, 8) + " tp=2", "query, key and value columns per tensor rank = 24"},
  };
  for (const auto& [model, reason] : models) {
    const auto found = why_invalid(run_with(always + " " + model));
    expect_reason(found, reason);
    expect_reason(found, "fp8_format: found");
  }
}

TEST(KeyConflicts, ATeacherMustFitTheStudent) {
  const std::string student = "model=" + llama(24, 48);
  const std::string always = student + " teacher=" + llama(32, 48, 4, 2, 8, 3) + " ";
  expect_refusals(
      {
          {"pp=3 gbs=4 tp=2", ""},
          {"distillation_loss=unfused distillation_temperature=2", ""},
          {"pp=4 gbs=4", "4 stages, expected at most the 3 layers of the teacher"},
          {"pipeline_schedule=gpipe", "pipeline_schedule: found gpipe with 1 chunks and a teacher"},
          {"virtual_pipeline_chunks=2", "with 2 chunks and a teacher"},
          {"vocab_parallel=vocab-1", "vocab_parallel: found vocab-1 with a teacher"},
          {"tp=2 distillation_loss=unfused", "distillation_loss: found unfused with tensor_model"},
          {"distillation_kl=reverse distillation_loss=unfused", "distillation_kl reverse"},
          {"loss_mask=m.bin", "loss_mask: found a path without data"},
      },
      always);
  expect_refusals(
      {
          {"teacher=gpt2-124m", "teacher: gpt2-124m has a vocabulary of 50257, expected the 100 of"},
          {"pipeline_schedule=bubble-fill", "pipeline_schedule: found bubble-fill, which orders a teacher"},
          {"loss_mask=m.bin", "loss_mask: found a path without data"},
      },
      student);
  for (const char* key :
       {"distillation_cache_limit=-1", "distillation_cache_limit=1.5", "distillation_temperature=0",
        "distillation_temperature=nan", "distillation_lm_weight=1.5", "distillation_kl=both",
        "distillation_schedule=1f1b", "distillation_cache_dtype=bf16"}) {
    EXPECT_THROW(run_with(always + key), InputError) << key;
  }
}

TEST(KeyConflicts, SwitchesThatDoNotGoTogether) {
  expect_refusals(
      {
          {"model=qwen2.5-0.5b prefix_length=16", ""},
          {"model=qwen2.5-0.5b prefix_length=33",
           "prefix_length: found 33, expected at most the seq_length 32"},
          {"model=bloom-560m prefix_length=3", "prefix_length: found 3 with bloom-560m, which has ALiBi"},
          {"model=starcoder2-3b prefix_length=3", "has a sliding window"},
          {"model=gpt2-124m teacher=falcon-rw-1b prefix_length=3", "falcon-rw-1b, which has ALiBi"},
          {"model=gpt2-124m prefix_length=3 software=megatron-core", "with software megatron-core"},
          {"model=glm-130b fp8_format=hybrid", "fp8_format: found hybrid with glm-130b, whose residual"},
          {"model=phi-2 fp8_format=hybrid hidden_dropout=0.1", ""},
          {"model=phi-2 vocab_parallel=vocab-1 pp=2",
           "vocab_parallel: found vocab-1 with phi-2, whose output layer has biases"},
          {"model=baichuan2-7b vocab_parallel=vocab-2 pp=2", "has normalised rows"},
          {"model=glm-10b seq_length=1024", ""},
          {"model=glm-10b seq_length=1025", "at most the 1024 learned positions"},
      },
      "seq_length=32");
}

}  // namespace
}  // namespace plumbline::key_conflicts_test
