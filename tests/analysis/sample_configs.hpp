// Small configurations and hand-written schedules that the tests of analysis/ share.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline::sample {

/// A Qwen2-type model whose every size can be multiplied in the head.
inline RunConfig tiny_qwen2() {
  RunConfig config;
  ModelConfig& m = config.model;
  m.name = "tiny-qwen2";
  m.architecture = "qwen2";
  m.layers = 2, m.hidden = 8, m.heads = 2, m.kv_heads = 1, m.head_dim = 4, m.ffn = 16, m.vocab = 32;
  m.position.max = 64;
  m.biases.qkv = m.embedding.tied = true;
  config.batch = {.seq_length = 4, .micro_batch_size = 1, .global_batch_size = 2};
  config.numerics.precision = DType::fp32;
  config.parallel.make_vocab_size_divisible_by = 32;
  return config;
}

/// The same on ranks of two kinds, two samples for each replica.
inline RunConfig spread(RunConfig config, int tensor, int data) {
  config.parallel.tensor = tensor;
  config.parallel.world_size = tensor * data;
  config.batch.global_batch_size = std::int64_t{2} * data;
  config.parallel.make_vocab_size_divisible_by = 32 / tensor;
  return config;
}

/// A GPT-2-type model: LayerNorm, GELU, biases, learned positions.
inline RunConfig tiny_gpt2() {
  RunConfig config = tiny_qwen2();
  ModelConfig& m = config.model;
  m.name = "tiny-gpt2";
  m.architecture = "gpt2";
  m.kv_heads = 2;
  m.norms.kind = Norm::layer;
  m.activation = Activation::gelu;
  m.position.kind = Positions::learned;
  m.biases.linear = true;
  return config;
}

/// Linear layers in FP8, all sizes multiples of 16: T = h = q = k = 16, F = 32. A layer's matrices
/// have 48·16 + 16·16 + 64·16 + 16·32 = 2560 elements.
inline RunConfig tiny_hybrid() {
  RunConfig config = tiny_qwen2();
  config.model.hidden = 16;
  config.model.kv_heads = 2;
  config.model.head_dim = 8;
  config.model.ffn = 32;
  config.batch.seq_length = 16;
  config.numerics.precision = DType::bf16;
  config.numerics.fp8.format = Fp8Format::hybrid;
  return config;
}

/// A model whose products fill a device.
inline RunConfig real_model() {
  RunConfig config = tiny_qwen2();
  ModelConfig& m = config.model;
  m.layers = 8, m.hidden = 2048, m.heads = 16, m.kv_heads = 8, m.head_dim = 128, m.ffn = 8192,
  m.vocab = 32000;
  config.batch.seq_length = 2048;
  config.numerics.precision = DType::bf16;
  config.parallel.make_vocab_size_divisible_by = 128;
  return config;
}

/// On this machine every operator takes one second, an all-gather or reduce-scatter `latency`, an all-reduce
/// two of it.
inline HardwareProfile counting_machine(double latency) {
  constexpr double kHuge = 1e30;
  HardwareProfile p;
  p.peak_fp32 = p.peak_16bit = {kHuge};
  p.memory_bandwidth = p.link_bandwidth = {kHuge};
  p.launch_overhead = {1};
  p.link_latency = {latency};
  return p;
}

/// One rank: F B per micro-batch, then the end of the step.
inline Schedule one_rank(int microbatches) {
  Schedule schedule;
  schedule.microbatches = microbatches;
  schedule.rank_of_stage = {0};
  schedule.actions.resize(1);
  for (std::uint32_t m = 0; m < static_cast<std::uint32_t>(microbatches); ++m) {
    schedule.actions[0].push_back({ActionType::forward, false, 0, m});
    schedule.actions[0].push_back({ActionType::backward, false, 0, m});
  }
  schedule.actions[0].push_back({ActionType::reduce_gradients, false, 0, 0});
  schedule.actions[0].push_back({ActionType::optimizer, false, 0, 0});
  return schedule;
}

/// 1F1B on two ranks with two micro-batches, written out by hand.
inline Schedule two_ranks() {
  using enum ActionType;
  Schedule schedule;
  schedule.ranks = 2;
  schedule.stages = 2;
  schedule.microbatches = 2;
  schedule.rank_of_stage = {0, 1};
  schedule.actions = {
      {{forward, false, 0, 0},
       {send_forward, false, 0, 0},
       {forward, false, 0, 1},
       {send_forward, false, 0, 1},
       {receive_backward, false, 0, 0},
       {backward, false, 0, 0},
       {receive_backward, false, 0, 1},
       {backward, false, 0, 1},
       {reduce_gradients, false, 0, 0},
       {reduce_embedding, false, 0, 0},
       {optimizer, false, 0, 0}},
      {{receive_forward, false, 1, 0},
       {forward, false, 1, 0},
       {backward, false, 1, 0},
       {send_backward, false, 1, 0},
       {receive_forward, false, 1, 1},
       {forward, false, 1, 1},
       {backward, false, 1, 1},
       {send_backward, false, 1, 1},
       {reduce_gradients, false, 1, 0},
       {reduce_embedding, false, 1, 0},
       {optimizer, false, 1, 0}},
  };
  return schedule;
}

}  // namespace plumbline::sample
