// Runs of other frameworks that the tests of this folder share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::frameworks {

/// A GPT-2 of 8 layers on 16 A100.
inline RunConfig gpt(const std::string& software, int tensor = 4, int pipeline = 2) {
  RunConfig config;
  ModelConfig& m = config.model;
  m.name = "inline";
  m.architecture = "gpt2";
  m.layers = 8, m.hidden = 2048, m.heads = m.kv_heads = 16, m.head_dim = 128, m.ffn = 4 * 2048,
  m.vocab = 51200;
  m.position.max = 1024;
  m.norms.kind = Norm::layer, m.activation = Activation::gelu, m.position.kind = Positions::learned;
  m.biases.qkv = m.biases.linear = m.embedding.tied = true;
  config.batch = {.seq_length = 1024, .micro_batch_size = 4, .global_batch_size = 64};
  config.numerics.precision = DType::bf16;
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.parallel.world_size = 16;
  config.machine.hardware = "a100-sxm-80gb";
  config.machine.software = software;
  return config;
}

inline RunConfig llama(const std::string& software, int tensor = 4, int pipeline = 2) {
  RunConfig config = gpt(software, tensor, pipeline);
  config.model = *find_preset("llama-3.1-8b");
  return config;
}

inline Flops flops_of(const std::vector<OperatorCall>& calls) {
  Flops sum;
  for (const OperatorCall& call : calls) sum += plumbline::flops_of(call);
  return sum;
}

inline Prediction predicted(const RunConfig& config) {
  return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
}

inline StageShape first_shape(const RunConfig& config) {
  return stage_shapes(config, config.parallel.pipeline).front();
}

inline void expect_refused(const RunConfig& config, const std::string& reason) {
  EXPECT_THAT([&] { predicted(config); },
              testing::ThrowsMessage<InputError>(
                  testing::AllOf(testing::HasSubstr(reason), testing::Not(testing::HasSubstr("\n")))));
}

/// Bytes of all tensors that rank 0 of one stage holds.
inline MemoryBreakdown held_bytes(const RunConfig& config) {
  const StageShape shape = first_shape(config);
  return framework_held_bytes({&shape, 1});
}

inline std::vector<OperatorCall> forward_of_layer(const StageShape& shape) {
  UnitWork work;
  framework_layer(shape, LayerPass::forward, 0, false, work);
  return work.calls;
}

/// One micro-batch of 4096 tokens on H100.
inline RunConfig mixture(const char* model, int tensor, int expert, int expert_tensor, int world) {
  RunConfig config;
  config.model = *find_preset(model);
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 256};
  config.numerics.precision = DType::bf16;
  config.parallel.tensor = tensor;
  config.parallel.sequence_parallel = tensor > 1;
  config.parallel.expert = expert;
  config.parallel.expert_tensor = expert_tensor;
  config.parallel.ep.token_dispatcher = TokenDispatcher::alltoall;
  config.parallel.world_size = world;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-core";
  return config;
}

inline StageShape shape_of(const RunConfig& config) {
  return stage_shapes(config, 1).front();
}

inline std::vector<OperatorCall> calls_named(const StageShape& shape, ActionType type,
                                             const std::string& part) {
  std::vector<OperatorCall> found;
  for (const OperatorCall& call : calls_of(framework_work(shape, type))) {
    if (std::string(call.label).find(part) != std::string::npos) found.push_back(call);
  }
  return found;
}

}  // namespace plumbline::frameworks
