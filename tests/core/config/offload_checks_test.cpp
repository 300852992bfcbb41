// Conflicts of activation offloading, one line each.
#include "tests/core/config/reasons.hpp"

namespace plumbline::offload_checks_test {
namespace {

using test::expect_refusals;

TEST(OffloadChecks, WhatDoesNotGoWithItIsRefusedInOneLine) {
  expect_refusals(
      {
          {"", ""},
          {"cpu_offloading_num_layers=0 recompute_granularity=full", ""},
          {"recompute_granularity=selective", ""},
          {"cpu_offloading_num_layers=31", ""},
          {"model=mixtral-8x7b", ""},
          {"cpu_offloading_num_layers=32",
           "cpu_offloading_num_layers: found 32 with the 32 layers of llama-3-8b, expected fewer"},
          {"recompute_granularity=full",
           "cpu_offloading_num_layers: found 2 with recompute_granularity full"},
          {"fp8_format=hybrid", ""},
          {"software=megatron-core", ""},
          {"software=megatron-core world_size=2 pp=2 gbs=2",
           "cpu_offloading_num_layers: found 2 with pipeline_model_parallel_size 2"},
          {"teacher=llama-3-8b", "with a teacher"},
          {"model=mixtral-8x7b moe_expert_capacity_factor=1", ""},
          {"model=mixtral-8x7b world_size=2 ep=2 gbs=2", ""},
      },
      "model=llama-3-8b world_size=1 cpu_offloading_num_layers=2");
}

}  // namespace
}  // namespace plumbline::offload_checks_test
