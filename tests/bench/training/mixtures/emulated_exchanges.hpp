// Expert exchanges on emulated H100s: narrow layers like DeepSeek-V3's, and the real training code on the
// emulated lanes.
#pragma once

#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {

/// A few narrow layers of few experts, spread over the data ranks: exchanges are a third of them.
inline RunConfig narrow_deepseek(const char* schedule, const Layout& layout, int zero) {
  RunConfig config;
  config.model = small_deepseek(true);
  config.model.layers = 6;
  config.model.hidden = 2048;
  config.model.heads = config.model.kv_heads = 16;
  config.model.latent = {512, 256, 128, 64, 128};
  config.model.head_dim = 192;
  config.model.rotary.dim = 64;
  config.model.ffn = 512;
  config.model.mixture.experts = 16;
  config.model.mixture.top_k = 4;
  config.model.mixture.shared = 512;
  config.model.mixture.first_dense = 1;
  config.model.mixture.dense_ffn = 4096;
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 8 * layout.data;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.parallel.pp.schedule = schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.dp.zero_stage = zero;
  set_layout(config, layout);
  config.parallel.expert = layout.data;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

}  // namespace plumbline::training
