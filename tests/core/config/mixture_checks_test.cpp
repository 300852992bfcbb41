// Refusals of a run with an MoE model: one line each.
#include "tests/core/config/reasons.hpp"

namespace plumbline::mixture_checks_test {
namespace {

using test::Change;
using test::config_of;
using test::expect_refusals;
using test::Refusal;
using test::run_with;

TEST(MixtureChecks, SayWhatDoesNotFitInOneLine) {
  const std::vector<Refusal> cases = {
      {"model=mixtral-8x7b fp8_format=hybrid ep=2 world_size=2 moe_token_dispatcher_type=allgather gbs=2",
       "fp8_format: found hybrid with mixtral-8x7b, a mixture of experts, and moe_token_dispatcher_type "
       "allgather"},
      {"model=mixtral-8x7b fp8_format=e4m3 tp=2 world_size=2 sequence_parallel=true etp=1",
       "fp8_recipe: found delayed with mixtral-8x7b, a mixture of experts, and expert_tensor_parallel_size "
       "1"},
      {"model=mixtral-8x7b fp8_format=e4m3 fp8_recipe=tensorwise tp=2 world_size=2 sequence_parallel=true "
       "etp=1",
       ""},
      {"model=mixtral-8x7b frozen=lora", ""},
      {"model=mixtral-8x7b frozen=lora lora_targets=all",
       "lora_targets: found all with mixtral-8x7b, a mixture of experts, whose experts have no adapters"},
      {"model=qwen2-57b-a14b fp8_format=hybrid", "8 shared expert's columns",
       [](RunConfig& c) { c.model.mixture.shared = 8; }},
      {"model=mixtral-8x7b tp=2 world_size=2 sequence_parallel=true tp_comm_overlap=true", ""},
      {"model=mixtral-8x7b software=megatron-core ep=3", "expert_model_parallel_size: found 3"},
      {"model=mixtral-8x7b ep=3", "expert_model_parallel_size: found 3, expected a divisor of the 8"},
      {"model=mixtral-8x7b ep=2",
       "expert_model_parallel_size: found 2, expected a divisor of data x context parallel size, 1"},
      {"model=mixtral-8x7b ep=2 world_size=2 gbs=2 zero_stage=1 overlap_param_gather=true", ""},
      {"model=mixtral-8x7b ep=2 num_distributed_optimizer_instances=2 world_size=4 gbs=4 zero_stage=1", ""},
      {"model=mixtral-8x7b num_distributed_optimizer_instances=2 ep=4 world_size=4 gbs=4 zero_stage=1",
       "num_distributed_optimizer_instances: found 2 with 1 ranks that hold the same experts, expected a "
       "divisor"},
      {"model=mixtral-8x7b moe_token_dispatcher_type=flex",
       "moe_token_dispatcher_type: found flex with software plumbline, which has no kernels of DeepEP"},
      {"model=mixtral-8x7b tp=2 world_size=2 etp=1",
       "sequence_parallel: found false with mixtral-8x7b, a mixture of experts, on 2 tensor ranks and "
       "expert_tensor_parallel_size 1"},
      {"model=mixtral-8x7b world_size=2 gbs=2 etp=4",
       "world_size: found 2, expected a multiple of expert tensor x expert x pipeline parallel size = 4 x 1 "
       "x 1"},
      {"model=llama-3-8b moe_aux_loss_coeff=0.1", "moe_aux_loss_coeff: found"},
      {"model=llama-3-8b moe_z_loss_coeff=0.1", "moe_z_loss_coeff: found"},
      {"model=mixtral-8x7b moe_router_load_balancing_type=seq_aux_loss",
       "moe_router_load_balancing_type: found seq_aux_loss without moe_aux_loss_coeff"},
      {"model=mixtral-8x7b moe_router_load_balancing_type=global_aux_loss",
       "moe_router_load_balancing_type: found global_aux_loss without moe_aux_loss_coeff"},
      {"model=llama-3-8b moe_expert_capacity_factor=1",
       "moe_expert_capacity_factor: found 1 with llama-3-8b, which has no experts; expected none"},
      {"model=mixtral-8x7b moe_pad_expert_input_to_capacity=true",
       "moe_pad_expert_input_to_capacity: found true without moe_expert_capacity_factor"},
      {"model=mixtral-8x7b moe_token_drop_policy=position",
       "moe_token_drop_policy: found position without moe_expert_capacity_factor"},
      {"model=mixtral-8x7b seq_length=100 moe_expert_capacity_factor=4.01",
       "moe_expert_capacity_factor: found 4.01 which is a capacity of 101 rows, expected at most the 100"},
      {"model=mixtral-8x7b software=megatron-core moe_expert_capacity_factor=1",
       "moe_expert_capacity_factor: found 1 with software megatron-core"},
      {"model=mixtral-8x7b ep=2 world_size=2 gbs=2 moe_token_dispatcher_type=allgather "
       "moe_expert_capacity_factor=1",
       "moe_expert_capacity_factor: found 1 with moe_token_dispatcher_type allgather, expected alltoall"},
      {"model=mixtral-8x7b tp=2 world_size=2 sequence_parallel=true etp=1 moe_expert_capacity_factor=1",
       "moe_expert_capacity_factor: found 1 with expert_tensor_parallel_size 1 on 2 tensor ranks"},
      {"model=mixtral-8x7b moe_routing=random",
       "moe_routing: found random, expected balanced, worst, zipf:S with S from 0 to 10, or the path of a "
       ".csv"},
      {"model=llama-3-8b moe_routing=worst",
       "moe_routing: found worst with llama-3-8b, which has no experts; expected balanced"},
      {"model=mixtral-8x7b software=megatron-core moe_routing=worst",
       "moe_routing: found worst with software megatron-core, expected balanced"},
      {"model=llama-3-8b save_routing=x.csv", "save_routing: found a path"},
      {"model=qwen3-30b-a3b cp=2 world_size=2 moe_aux_loss_coeff=0.1 "
       "moe_router_load_balancing_type=seq_aux_loss",
       "moe_aux_loss_coeff: found 0.1"},
      {"model=qwen3-30b-a3b moe_router_bias_update_rate=0",
       "moe_router_bias_update_rate: found 0 with qwen3-30b-a3b"},
      {"model=deepseek-v3 cp=2 world_size=2", ""},
      {"model=deepseek-v3 fp8_format=hybrid",
       "and 520 compressed keys' and values' columns per tensor rank; expected a multiple of 16",
       [](RunConfig& c) { c.model.latent.kv_rank = 520; }},
      {"model=qwen3-30b-a3b tp=512 world_size=512", "tensor_model_parallel_size: found 512"},
  };
  for (const std::string model :
       {"mixtral-8x7b", "qwen2-57b-a14b", "llama-3-8b", "qwen3-30b-a3b", "deepseek-v3"})
    EXPECT_EQ(why_invalid(run_with("model=" + model)), std::nullopt) << model;
  expect_refusals(cases, "world_size=1");
}

/// ceil(T·k/E·factor) of the tokens that a rank has of a micro-batch (Megatron-LM, get_capacity).
TEST(MixtureChecks, ACapacityIsThatOfARanksTokens) {
  RunConfig config = run_with("model=mixtral-8x7b seq_length=100");  // eight experts, two of them for a token
  EXPECT_EQ(config.expert_capacity(), 0);
  config.mixture.capacity_factor = 1;
  EXPECT_EQ(config.expert_capacity(), 25);
  config.mixture.capacity_factor = 1.05;
  EXPECT_EQ(config.expert_capacity(), 27);
  config.mixture.capacity_factor = 0.001;
  EXPECT_EQ(config.expert_capacity(), 1);
  config.batch.micro_batch_size = 3;
  config.mixture.capacity_factor = 4;
  EXPECT_EQ(config.expert_capacity(), 300);
  config.parallel.context = config.parallel.world_size = 2;
  EXPECT_EQ(config.expert_capacity(), 150);
  EXPECT_EQ(run_with("model=llama-3-8b").expert_capacity(), 0);
}

TEST(MixtureChecks, GpusExecuteThem) {
  for (const std::string name : {"model=qwen3-30b-a3b", "model=deepseek-v3"}) {
    EXPECT_EQ(why_unsupported(run_with(name + " backend=cuda")), std::nullopt) << name;
    EXPECT_EQ(why_unsupported(run_with(name + " backend=cuda ep=2 world_size=2")), std::nullopt) << name;
  }
}

// Published MoE runs force a balanced routing this way: rows are even, and predicted with any software.
TEST(MixtureChecks, ExpertsFilledUpToTheMeanAreEvenWithAnySoftware) {
  RunConfig config = run_with(
      "model=mixtral-8x7b software=megatron-core ep=2 world_size=2 gbs=2 "
      "moe_token_dispatcher_type=allgather moe_expert_capacity_factor=1");
  EXPECT_TRUE(why_invalid(config));
  config.mixture.pad_to_capacity = true;
  EXPECT_EQ(why_invalid(config), std::nullopt);
}

TEST(MixtureChecks, SayWithWhatExchangesAreNotHidden) {
  const std::vector<Refusal> cases = {
      {"", ""},
      {"pipeline_schedule=dualpipev", ""},
      {"pipeline_schedule=mine.csv", ""},
      {"zero_stage=2", ""},
      {"ep=1", "with expert_model_parallel_size 1, expected expert_model_parallel_size above 1"},
      {"moe_token_dispatcher_type=allgather", "moe_token_dispatcher_type allgather"},
      {"recompute_granularity=full", ""},
      {"zero_stage=3", ""},
      {"backend=cuda", ""},
      {"fp8_format=hybrid", ""},
      {"mtp_num_layers=1", ""},
      {"pipeline_schedule=zb-h1", "pipeline_schedule zb-h1, expected one with overlapped pairs"},
      {"pipeline_schedule=gpipe", "pipeline_schedule gpipe"},
      {"pp=2 world_size=4 vocab_parallel=vocab-2", "vocab_parallel vocab-2, expected none"},
  };
  expect_refusals(cases, "model=mixtral-8x7b ep=2 world_size=2 gbs=16 overlap_moe_expert_parallel_comm=true");
}

TEST(MixtureChecks, OfTeachersAndStudents) {
  const std::vector<Refusal> cases = {
      {"model=mixtral-8x7b teacher=llama-3-8b ep=2 world_size=2", ""},
      {"model=llama-3-8b teacher=mixtral-8x7b ep=2 world_size=2", ""},
      {"model=mixtral-8x7b teacher=mixtral-8x22b ep=2 world_size=2", ""},
      {"model=mixtral-8x7b teacher=llama-3-8b world_size=2 cp=2 moe_aux_loss_coeff=0.1 "
       "moe_router_load_balancing_type=seq_aux_loss",
       "moe_aux_loss_coeff: found 0.1 with mixtral-8x7b"},
      {"model=mixtral-8x7b teacher=llama-3-8b software=megatron-core",
       "teacher: found llama-3-8b with mixtral-8x7b and software megatron-core, which distils no mixtures"},
      {"model=llama-3-8b teacher=mixtral-8x7b software=megatron-core",
       "teacher: found mixtral-8x7b with llama-3-8b and software megatron-core"},
      {"model=llama-3-8b teacher=mixtral-8x7b ep=3 world_size=3",
       "expert_model_parallel_size: found 3, expected a divisor of the 8 experts of mixtral-8x7b"},
      {"model=mixtral-8x7b teacher=mixtral-8x7b ep=4 world_size=4",
       "expert_model_parallel_size: found 4, expected a divisor of the 6 experts of teacher-of-6",
       [](RunConfig& c) {
         c.distillation.teacher->name = "teacher-of-6";
         c.distillation.teacher->mixture.experts = 6;
       }},
      {"model=llama-3-8b teacher=mixtral-8x7b tp=2 world_size=2 etp=1",
       "sequence_parallel: found false with mixtral-8x7b, a mixture of experts, on 2 tensor ranks"},
      {"model=llama-3-8b teacher=mixtral-8x7b tp=2 world_size=2 sequence_parallel=true tp_comm_overlap=true",
       ""},
      {"model=llama-3-8b teacher=deepseek-v3 world_size=2 cp=2", ""},
      {"model=llama-3-8b teacher=mixtral-8x7b world_size=2 zero_stage=1 overlap_param_gather=true ep=2", ""},
      {"model=mixtral-8x7b teacher=llama-3-8b ep=2 world_size=2 overlap_moe_expert_parallel_comm=true",
       "overlap_moe_expert_parallel_comm: found true with a teacher, whose schedules have no pairs"},
      {"model=llama-3-8b teacher=mixtral-8x7b moe_expert_capacity_factor=1",
       "moe_expert_capacity_factor: found 1 with llama-3-8b, which has no experts"},
      {"model=llama-3-8b teacher=mixtral-8x7b save_routing=r.csv", ""},
      {"model=llama-3-8b teacher=llama-3-8b save_routing=r.csv",
       "save_routing: found a path with llama-3-8b, which has no experts"},
      {"model=llama-3-8b teacher=mixtral-8x7b moe_routing=/r.csv", ""},
      {"model=llama-3-8b teacher=mixtral-8x7b moe_routing=worst",
       "moe_routing: found worst with llama-3-8b, which has no experts"},
  };
  const Change same_words = [](RunConfig& c) { c.distillation.teacher->vocab = c.model.vocab; };
  expect_refusals(cases, "world_size=1 gbs=24", same_words);
  for (const Refusal& c : cases) {
    if (*c.reason != '\0') continue;
    EXPECT_EQ(why_unsupported(config_of(c, "gbs=24", same_words)).value_or(""), "");
  }
}

TEST(MixtureChecks, OfASharedExpertAlongsideExchanges) {
  const std::vector<Refusal> cases = {
      {"", ""},
      {"moe_token_dispatcher_type=alltoall", ""},
      {"recompute_granularity=full", ""},
      {"zero_stage=3", ""},
      {"software=megatron-core", ""},
      {"software=megatron-core ep=1", "found true without experts on several ranks"},
      {"software=megatron-core moe_token_dispatcher_type=allgather", "allgather, expected alltoall"},
      {"", "which has no shared expert; expected false", [](RunConfig& c) { c.model.mixture.shared = 0; }},
      {"", "which has no shared expert", [](RunConfig& c) { c.model = *find_preset("llama-3-8b"); }},
      {"ep=1", "with expert_model_parallel_size 1, expected expert_model_parallel_size above 1"},
      {"moe_token_dispatcher_type=allgather", "moe_token_dispatcher_type allgather, expected alltoall"},
      {"overlap_moe_expert_parallel_comm=true", "with overlap_moe_expert_parallel_comm"},
      {"recompute_granularity=selective recompute_modules=shared_experts",
       "shared_experts among recompute_modules"},
      {"backend=cuda", ""},
  };
  expect_refusals(cases, "model=mixtral-8x7b ep=2 world_size=2 gbs=16 moe_shared_expert_overlap=true",
                  [](RunConfig& c) { c.model.mixture.shared = 1024; });
}

}  // namespace
}  // namespace plumbline::mixture_checks_test
