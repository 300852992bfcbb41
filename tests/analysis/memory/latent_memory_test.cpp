// Latent attention without query compression (bench/training/latent.md): memory that it saves.
#include <gtest/gtest.h>

#include <string>

#include "analysis/memory/memory_model.hpp"
#include "schedules/make_schedule.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::latent_memory_test {
namespace {

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kSequence = 16;
constexpr std::int64_t kRank = 24;

RunConfig deepseek(bool compressed) {
  RunConfig config;
  config.model = parse_model_config(
      R"({"model_type":"deepseek_v3","hidden_size":64,"intermediate_size":96,"moe_intermediate_size":32,)"
      R"("num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":128,)"
      R"("max_position_embeddings":64,"kv_lora_rank":16,"qk_nope_head_dim":16,"qk_rope_head_dim":8,)"
      R"("v_head_dim":12,"n_routed_experts":8,"num_experts_per_tok":2,"n_group":1,"topk_group":1,)"
      R"("first_k_dense_replace":1,"q_lora_rank":)" +
          (compressed ? std::to_string(kRank) : "null") + "}",
      "x");
  config.batch.seq_length = kSequence;
  config.numerics.precision = DType::fp32;
  return config;
}

std::int64_t kept(const RunConfig& config) {
  return predict_memory(config, sample::one_rank(1)).ranks.front().peak[Category::activations].value;
}

TEST(LatentMemory, QueriesWithoutCompressionKeepNothingOfIt) {
  // c, c' and a column of statistics.
  EXPECT_EQ(kept(deepseek(true)) - kept(deepseek(false)), kLayers * kSequence * (2 * kRank + 1) * 4);
}

TEST(LatentMemory, QueriesWithoutCompressionGoWithEverySplit) {
  for (const char* name : {"1f1b", "zb-h1"}) {
    for (const bool sequence_parallel : {false, true}) {
      RunConfig config = deepseek(false);
      config.parallel.tensor = 2;
      config.parallel.pipeline = 2;
      config.parallel.world_size = 4;
      config.parallel.pp.schedule = name;
      config.parallel.sequence_parallel = sequence_parallel;
      config.batch.global_batch_size = 4;
      ScheduleRequest request;
      request.name = name;
      request.ranks = 2;
      request.microbatches = 4;
      const MemoryPrediction prediction = predict_memory(config, make_schedule(request));
      for (const RankMemory& rank : prediction.ranks)
        EXPECT_GT(rank.peak.total(), rank.held.total()) << name << sequence_parallel;
    }
  }
}

}  // namespace
}  // namespace plumbline::latent_memory_test
