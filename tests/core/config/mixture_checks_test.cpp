// Refusals of a run with an MoE model: one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig run_of(const char* model) {
  RunConfig config;
  config.model = *find_preset(model);
  return config;
}

TEST(MixtureChecks, SayWhatDoesNotFitInOneLine) {
  struct Case {
    const char* model;
    std::function<void(RunConfig&)> change;
    const char* reason;
  };
  const Case cases[] = {
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.numerics.fp8.format = Fp8Format::hybrid;
         c.parallel.expert = c.parallel.world_size = 2;
         c.parallel.token_dispatcher = TokenDispatcher::allgather;
         c.batch.global_batch_size = 2;
       },
       "fp8_format: found hybrid with mixtral-8x7b, a mixture of experts, and moe_token_dispatcher_type "
       "allgather"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.numerics.fp8.format = Fp8Format::e4m3;
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.sequence_parallel = true;
         c.parallel.expert_tensor = 1;
       },
       "fp8_format: found e4m3 with mixtral-8x7b, a mixture of experts, and expert_tensor_parallel_size 1"},
      {"qwen2-57b-a14b",
       [](RunConfig& c) {
         c.numerics.fp8.format = Fp8Format::hybrid;
         c.model.mixture.shared = 8;
       },
       "8 shared expert's columns"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.sequence_parallel = c.parallel.tp_comm_overlap = true;
       },
       "accepted"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.machine.software = "megatron-core";
         c.parallel.expert = 3;
       },
       "expert_model_parallel_size: found 3"},
      {"mixtral-8x7b", [](RunConfig& c) { c.parallel.expert = 3; },
       "expert_model_parallel_size: found 3, expected a divisor of the 8"},
      {"mixtral-8x7b", [](RunConfig& c) { c.parallel.expert = 2; },
       "expert_model_parallel_size: found 2, expected a divisor of data x context parallel size, 1"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.expert = c.parallel.world_size = 2;
         c.batch.global_batch_size = 2;
         c.parallel.zero_stage = 1;
         c.parallel.overlap_param_gather = true;
       },
       "accepted"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.expert = c.parallel.num_distributed_optimizer_instances = 2;
         c.parallel.world_size = 4;
         c.batch.global_batch_size = 4;
         c.parallel.zero_stage = 1;
       },
       "accepted"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.num_distributed_optimizer_instances = 2;
         c.parallel.expert = c.parallel.world_size = 4;
         c.batch.global_batch_size = 4;
         c.parallel.zero_stage = 1;
       },
       "num_distributed_optimizer_instances: found 2 with 1 ranks that hold the same experts, expected a "
       "divisor"},
      {"mixtral-8x7b", [](RunConfig& c) { c.parallel.token_dispatcher = TokenDispatcher::flex; },
       "moe_token_dispatcher_type: found flex with software plumbline, which has no kernels of DeepEP"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.expert_tensor = 1;
       },
       "sequence_parallel: found false with mixtral-8x7b, a mixture of experts, on 2 tensor ranks and "
       "expert_tensor_parallel_size 1"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.world_size = 2;
         c.batch.global_batch_size = 2;
         c.parallel.expert_tensor = 4;
       },
       "world_size: found 2, expected a multiple of expert tensor x expert x pipeline parallel size = 4 x 1 "
       "x 1"},
      {"llama-3-8b", [](RunConfig& c) { c.mixture.aux_loss_coeff = 0.1; }, "moe_aux_loss_coeff: found"},
      {"llama-3-8b", [](RunConfig& c) { c.mixture.z_loss_coeff = 0.1; }, "moe_z_loss_coeff: found"},
      {"mixtral-8x7b", [](RunConfig& c) { c.mixture.load_balancing = LoadBalancing::seq_aux_loss; },
       "moe_router_load_balancing_type: found seq_aux_loss without moe_aux_loss_coeff"},
      {"mixtral-8x7b", [](RunConfig& c) { c.mixture.load_balancing = LoadBalancing::global_aux_loss; },
       "moe_router_load_balancing_type: found global_aux_loss without moe_aux_loss_coeff"},
      {"llama-3-8b", [](RunConfig& c) { c.mixture.capacity_factor = 1; },
       "moe_expert_capacity_factor: found 1 with llama-3-8b, which has no experts; expected none"},
      {"mixtral-8x7b", [](RunConfig& c) { c.mixture.pad_to_capacity = true; },
       "moe_pad_expert_input_to_capacity: found true without moe_expert_capacity_factor"},
      {"mixtral-8x7b", [](RunConfig& c) { c.mixture.drop_policy = TokenDropPolicy::position; },
       "moe_token_drop_policy: found position without moe_expert_capacity_factor"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.batch.seq_length = 100;
         c.mixture.capacity_factor = 4.01;
       },
       "moe_expert_capacity_factor: found 4.01 which is a capacity of 101 rows, expected at most the 100"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.machine.software = "megatron-core";
         c.mixture.capacity_factor = 1;
       },
       "moe_expert_capacity_factor: found 1 with software megatron-core"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.expert = c.parallel.world_size = 2;
         c.batch.global_batch_size = 2;
         c.parallel.token_dispatcher = TokenDispatcher::allgather;
         c.mixture.capacity_factor = 1;
       },
       "moe_expert_capacity_factor: found 1 with moe_token_dispatcher_type allgather, expected alltoall"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.sequence_parallel = true;
         c.parallel.expert_tensor = 1;
         c.mixture.capacity_factor = 1;
       },
       "moe_expert_capacity_factor: found 1 with expert_tensor_parallel_size 1 on 2 tensor ranks"},
      {"mixtral-8x7b", [](RunConfig& c) { c.mixture.routing = "random"; },
       "moe_routing: found random, expected balanced, worst, zipf:S with S from 0 to 10, or the path of a "
       ".csv"},
      {"llama-3-8b", [](RunConfig& c) { c.mixture.routing = "worst"; },
       "moe_routing: found worst with llama-3-8b, which has no experts; expected balanced"},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.machine.software = "megatron-core";
         c.mixture.routing = "worst";
       },
       "moe_routing: found worst with software megatron-core, expected balanced"},
      {"llama-3-8b", [](RunConfig& c) { c.files.save_routing = "x.csv"; }, "save_routing: found a path"},
      {"qwen3-30b-a3b",
       [](RunConfig& c) {
         c.parallel.context = c.parallel.world_size = 2;
         c.mixture.aux_loss_coeff = 0.1;
         c.mixture.load_balancing = LoadBalancing::seq_aux_loss;
       },
       "moe_aux_loss_coeff: found 0.1"},
      {"qwen3-30b-a3b", [](RunConfig& c) { c.mixture.bias_update_rate = 0; },
       "moe_router_bias_update_rate: found 0 with qwen3-30b-a3b"},
      {"deepseek-v3", [](RunConfig& c) { c.parallel.context = c.parallel.world_size = 2; }, "accepted"},
      {"deepseek-v3",
       [](RunConfig& c) {
         c.numerics.fp8.format = Fp8Format::hybrid;
         c.model.latent.kv_rank = 520;
       },
       "and 520 compressed keys' and values' columns per tensor rank; expected a multiple of 16"},
      {"qwen3-30b-a3b", [](RunConfig& c) { c.parallel.tensor = c.parallel.world_size = 512; },
       "tensor_model_parallel_size: found 512"},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of(c.model);
    EXPECT_EQ(why_invalid(config), std::nullopt) << c.model;
    c.change(config);
    const std::string reason = why_invalid(config).value_or("accepted");
    EXPECT_THAT(reason, HasSubstr(c.reason));
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
  }
}

/// ceil(T·k/E·factor) of the tokens that a rank has of a micro-batch (Megatron-LM, get_capacity).
TEST(MixtureChecks, ACapacityIsThatOfARanksTokens) {
  RunConfig config = run_of("mixtral-8x7b");  // eight experts, two of them for a token
  config.batch.seq_length = 100;
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
  EXPECT_EQ(run_of("llama-3-8b").expert_capacity(), 0);
}

TEST(MixtureChecks, GpusExecuteThem) {
  for (const char* name : {"qwen3-30b-a3b", "deepseek-v3"}) {
    RunConfig config = run_of(name);
    config.machine.backend = Backend::cuda;
    EXPECT_EQ(why_unsupported(config), std::nullopt) << name;
    config.parallel.expert = config.parallel.world_size = 2;
    EXPECT_EQ(why_unsupported(config), std::nullopt) << name;
  }
}

// Published MoE runs force a balanced routing this way: rows are even, and predicted with any software.
TEST(MixtureChecks, ExpertsFilledUpToTheMeanAreEvenWithAnySoftware) {
  RunConfig config;
  config.model = *find_preset("mixtral-8x7b");
  config.machine.software = "megatron-core";
  config.parallel.expert = config.parallel.world_size = 2;
  config.batch.global_batch_size = 2;
  config.parallel.token_dispatcher = TokenDispatcher::allgather;
  config.mixture.capacity_factor = 1;
  EXPECT_TRUE(why_invalid(config));
  config.mixture.pad_to_capacity = true;
  EXPECT_EQ(why_invalid(config), std::nullopt);
}

TEST(MixtureChecks, SayWithWhatExchangesAreNotHidden) {
  struct Case {
    std::function<void(RunConfig&)> change;
    const char* reason;  // empty: it goes together
  };
  const Case cases[] = {
      {[](RunConfig&) {}, ""},
      {[](RunConfig& c) { c.parallel.schedule = "dualpipev"; }, ""},
      {[](RunConfig& c) { c.parallel.schedule = "mine.csv"; }, ""},
      {[](RunConfig& c) { c.parallel.zero_stage = 2; }, ""},
      {[](RunConfig& c) { c.parallel.expert = 1; },
       "with expert_model_parallel_size 1, expected expert_model_parallel_size above 1"},
      {[](RunConfig& c) { c.parallel.token_dispatcher = TokenDispatcher::allgather; },
       "moe_token_dispatcher_type allgather"},
      {[](RunConfig& c) { c.recompute.granularity = Recompute::full; }, ""},
      {[](RunConfig& c) { c.parallel.zero_stage = 3; }, ""},
      {[](RunConfig& c) { c.machine.backend = Backend::cuda; }, ""},
      {[](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; }, ""},
      {[](RunConfig& c) { c.model.prediction_modules = 1; }, ""},
      {[](RunConfig& c) { c.parallel.schedule = "zb-h1"; },
       "pipeline_schedule zb-h1, expected one with overlapped pairs"},
      {[](RunConfig& c) { c.parallel.schedule = "gpipe"; }, "pipeline_schedule gpipe"},
      {[](RunConfig& c) {
         c.parallel.pipeline = 2;
         c.parallel.world_size = 4;
         c.parallel.vocab_parallel = VocabPasses::one_barrier;
       },
       "vocab_parallel vocab-2, expected none"},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of("mixtral-8x7b");
    config.parallel.expert = config.parallel.world_size = 2;
    config.batch.global_batch_size = 16;
    config.parallel.overlap_moe_expert_parallel_comm = true;
    c.change(config);
    const std::string reason = why_invalid(config).value_or("");
    EXPECT_THAT(reason, HasSubstr(c.reason));
    EXPECT_EQ(reason.empty(), c.reason[0] == '\0') << reason;
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
  }
}

TEST(MixtureChecks, OfTeachersAndStudents) {
  struct Case {
    const char* student;
    const char* teacher;
    void (*change)(RunConfig& config);
    const char* reason;
  };
  const auto spread = [](RunConfig& c) { c.parallel.expert = c.parallel.world_size = 2; };
  const Case cases[] = {
      {"mixtral-8x7b", "llama-3-8b", spread, ""},
      {"llama-3-8b", "mixtral-8x7b", spread, ""},
      {"mixtral-8x7b", "mixtral-8x22b", spread, ""},
      {"mixtral-8x7b", "llama-3-8b",
       [](RunConfig& c) {
         c.parallel.world_size = c.parallel.context = 2;
         c.mixture.aux_loss_coeff = 0.1;
         c.mixture.load_balancing = LoadBalancing::seq_aux_loss;
       },
       "moe_aux_loss_coeff: found 0.1 with mixtral-8x7b"},
      {"mixtral-8x7b", "llama-3-8b", [](RunConfig& c) { c.machine.software = "megatron-core"; },
       "teacher: found llama-3-8b with mixtral-8x7b and software megatron-core, which distils no mixtures"},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.machine.software = "megatron-core"; },
       "teacher: found mixtral-8x7b with llama-3-8b and software megatron-core"},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.parallel.expert = c.parallel.world_size = 3; },
       "expert_model_parallel_size: found 3, expected a divisor of the 8 experts of mixtral-8x7b"},
      {"mixtral-8x7b", "mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.expert = c.parallel.world_size = 4;
         c.distillation.teacher->name = "teacher-of-6";
         c.distillation.teacher->mixture.experts = 6;
       },
       "expert_model_parallel_size: found 4, expected a divisor of the 6 experts of teacher-of-6"},
      {"llama-3-8b", "mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.expert_tensor = 1;
       },
       "sequence_parallel: found false with mixtral-8x7b, a mixture of experts, on 2 tensor ranks"},
      {"llama-3-8b", "mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.sequence_parallel = c.parallel.tp_comm_overlap = true;
       },
       ""},
      {"llama-3-8b", "deepseek-v3", [](RunConfig& c) { c.parallel.world_size = c.parallel.context = 2; }, ""},
      {"llama-3-8b", "mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.world_size = 2;
         c.parallel.zero_stage = 1;
         c.parallel.overlap_param_gather = true;
         c.parallel.expert = 2;
       },
       ""},
      {"mixtral-8x7b", "llama-3-8b",
       [](RunConfig& c) {
         c.parallel.expert = c.parallel.world_size = 2;
         c.parallel.overlap_moe_expert_parallel_comm = true;
       },
       "overlap_moe_expert_parallel_comm: found true with a teacher, whose schedules have no pairs"},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.mixture.capacity_factor = 1; },
       "moe_expert_capacity_factor: found 1 with llama-3-8b, which has no experts"},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.files.save_routing = "r.csv"; }, ""},
      {"llama-3-8b", "llama-3-8b", [](RunConfig& c) { c.files.save_routing = "r.csv"; },
       "save_routing: found a path with llama-3-8b, which has no experts"},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.mixture.routing = "/r.csv"; }, ""},
      {"llama-3-8b", "mixtral-8x7b", [](RunConfig& c) { c.mixture.routing = "worst"; },
       "moe_routing: found worst with llama-3-8b, which has no experts"},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of(c.student);
    config.distillation.teacher = *find_preset(c.teacher);
    config.distillation.teacher->vocab = config.model.vocab;
    config.batch.global_batch_size = 24;
    c.change(config);
    const std::string reason = why_invalid(config).value_or("");
    EXPECT_THAT(reason, HasSubstr(c.reason)) << c.student << " " << c.teacher;
    EXPECT_EQ(reason.empty(), c.reason[0] == '\0') << reason;
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
    if (reason.empty()) {
      EXPECT_EQ(why_unsupported(config).value_or(""), "");
    }
  }
}

TEST(MixtureChecks, OfASharedExpertAlongsideExchanges) {
  struct Case {
    void (*change)(RunConfig& config);
    const char* reason;
  };
  const Case cases[] = {
      {[](RunConfig&) {}, ""},
      {[](RunConfig& c) { c.parallel.token_dispatcher = TokenDispatcher::alltoall; }, ""},
      {[](RunConfig& c) { c.recompute.granularity = Recompute::full; }, ""},
      {[](RunConfig& c) { c.parallel.zero_stage = 3; }, ""},
      {[](RunConfig& c) { c.machine.software = "megatron-core"; }, "with software megatron-core"},
      {[](RunConfig& c) { c.model.mixture.shared = 0; }, "which has no shared expert; expected false"},
      {[](RunConfig& c) { c.model = run_of("llama-3-8b").model; }, "which has no shared expert"},
      {[](RunConfig& c) { c.parallel.expert = 1; },
       "with expert_model_parallel_size 1, expected expert_model_parallel_size above 1"},
      {[](RunConfig& c) { c.parallel.token_dispatcher = TokenDispatcher::allgather; },
       "moe_token_dispatcher_type allgather, expected alltoall"},
      {[](RunConfig& c) { c.parallel.overlap_moe_expert_parallel_comm = true; },
       "with overlap_moe_expert_parallel_comm"},
      {[](RunConfig& c) {
         c.recompute.granularity = Recompute::selective;
         c.recompute.modules = {.shared_experts = true};
       },
       "shared_experts among recompute_modules"},
      {[](RunConfig& c) { c.machine.backend = Backend::cuda; }, ""},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of("mixtral-8x7b");
    config.model.mixture.shared = 1024;
    config.parallel.expert = config.parallel.world_size = 2;
    config.batch.global_batch_size = 16;
    config.parallel.moe_shared_expert_overlap = true;
    c.change(config);
    const std::string reason = why_invalid(config).value_or("");
    EXPECT_THAT(reason, HasSubstr(c.reason));
    EXPECT_EQ(reason.empty(), c.reason[0] == '\0') << reason;
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace plumbline
