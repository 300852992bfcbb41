// Megatron's place of each element, written out here from its documented layout, element by element.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "core/checkpoints/torch_file.hpp"
#include "core/files/safetensors.hpp"
#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::megatron_rules_test {
namespace {

using MegatronRulesTest = ConvertFolder;
using Tensors = std::map<std::string, StoredTensor>;

MegatronTarget ranks(int tensor, int pipeline, int chunks = 1, int expert = 1) {
  MegatronTarget target;
  target.sizes = {tensor, pipeline, chunks, expert};
  return target;
}

std::int64_t bits(const StoredTensor& tensor, std::int64_t row, std::int64_t col) {
  std::uint16_t value = 0;
  const std::int64_t cols = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  std::memcpy(&value, tensor.bytes.data() + (row * cols + col) * 2, 2);
  return value;
}

/// Both have the same bits in the same row, all columns; columns of `b` from `col` on.
void expect_row(const StoredTensor& a, std::int64_t row_a, const StoredTensor& b, std::int64_t row_b,
                std::int64_t col = 0) {
  const std::int64_t cols = a.shape.size() > 1 ? a.shape[1] : 1;
  for (std::int64_t i = 0; i < cols; ++i)
    ASSERT_EQ(bits(a, row_a, i), bits(b, row_b, col + i)) << "row " << row_a << " against " << row_b;
}

// llama_config: 4 query heads over 2 groups, head 16 wide, hidden 32, feed-forward 48, vocabulary 117.
TEST_F(MegatronRulesTest, AttentionFeedForwardVocabularyAndStages) {
  make("hf", llama_config(4));
  convert("hf", "m", ranks(2, 2, 2));
  const TensorFile hf(at("hf"));
  EXPECT_EQ(read("m/latest_checkpointed_iteration.txt"), "1");
  for (const int t : {0, 1}) {
    for (const int p : {0, 1}) {
      const TorchFile file(at(fmt::format("m/iter_0000001/mp_rank_0{}_00{}/model_optim_rng.pt", t, p)));
      for (const int v : {0, 1}) {
        const Tensors mine = file.tensors(fmt::format("model{}", v));
        const std::string layer = fmt::format("model.layers.{}.", 2 * v + p);
        const std::string own = "decoder.layers.0.";
        // Group t: queries of heads 2t and 2t + 1, its key, its value.
        const StoredTensor& qkv = mine.at(own + "self_attention.linear_qkv.weight");
        ASSERT_THAT(qkv.shape, testing::ElementsAre(64, 32));
        for (int row = 0; row < 64; ++row) {
          if (row < 32) expect_row(qkv, row, hf.get(layer + "self_attn.q_proj.weight"), 32 * t + row);
          if (row >= 32 && row < 48)
            expect_row(qkv, row, hf.get(layer + "self_attn.k_proj.weight"), 16 * t + row - 32);
          if (row >= 48) expect_row(qkv, row, hf.get(layer + "self_attn.v_proj.weight"), 16 * t + row - 48);
        }
        const StoredTensor& fc1 = mine.at(own + "mlp.linear_fc1.weight");
        ASSERT_THAT(fc1.shape, testing::ElementsAre(48, 32));
        for (int row = 0; row < 24; ++row) {
          expect_row(fc1, row, hf.get(layer + "mlp.gate_proj.weight"), 24 * t + row);
          expect_row(fc1, 24 + row, hf.get(layer + "mlp.up_proj.weight"), 24 * t + row);
        }
        const StoredTensor& proj = mine.at(own + "self_attention.linear_proj.weight");
        const StoredTensor& fc2 = mine.at(own + "mlp.linear_fc2.weight");
        ASSERT_THAT(proj.shape, testing::ElementsAre(32, 32));
        ASSERT_THAT(fc2.shape, testing::ElementsAre(32, 24));
        for (int row = 0; row < 32; ++row) {
          expect_row(proj, row, hf.get(layer + "self_attn.o_proj.weight"), row, 32 * t);
          expect_row(fc2, row, hf.get(layer + "mlp.down_proj.weight"), row, 24 * t);
        }
        for (int row = 0; row < 32; ++row) {
          expect_row(mine.at(own + "self_attention.linear_qkv.layer_norm_weight"), row,
                     hf.get(layer + "input_layernorm.weight"), row);
          expect_row(mine.at(own + "mlp.linear_fc1.layer_norm_weight"), row,
                     hf.get(layer + "post_attention_layernorm.weight"), row);
        }
        // 117 rows and 128 · 2 with padding: each rank has 128, the second none of the model's.
        EXPECT_EQ(mine.contains("embedding.word_embeddings.weight"), v == 0 && p == 0);
        EXPECT_EQ(mine.contains("output_layer.weight"), v == 1 && p == 1);
        EXPECT_EQ(mine.contains("decoder.final_layernorm.weight"), v == 1 && p == 1);
        if (v == 1 && p == 1) {
          const StoredTensor& output = mine.at("output_layer.weight");
          ASSERT_THAT(output.shape, testing::ElementsAre(128, 32));
          for (int row = 0; row < 128; ++row)
            expect_row(output, row, hf.get("lm_head.weight"), std::min(128 * t + row, 116));
        }
      }
    }
  }
}

TEST_F(MegatronRulesTest, MoreTensorRanksThanGroupsCutTheMixedProjection) {
  make("hf", llama_config(1));
  convert("hf", "m", ranks(4, 1));
  const TensorFile hf(at("hf"));
  // Rank 1 has 32 to 63 of the 128 mixed rows: key and value of the first group.
  const TorchFile file(at("m/iter_0000001/mp_rank_01/model_optim_rng.pt"));
  const StoredTensor qkv = file.tensors("model").at("decoder.layers.0.self_attention.linear_qkv.weight");
  ASSERT_THAT(qkv.shape, testing::ElementsAre(32, 32));
  for (int row = 0; row < 16; ++row) {
    expect_row(qkv, row, hf.get("model.layers.0.self_attn.k_proj.weight"), row);
    expect_row(qkv, 16 + row, hf.get("model.layers.0.self_attn.v_proj.weight"), row);
  }
}

TEST_F(MegatronRulesTest, ExpertsAreSplitInContiguousPartsAndTheRestIsOnEachRank) {
  const std::string mixtral = family_config(2, "mixtral");
  make("hf", mixtral);
  convert("hf", "m", ranks(2, 1, 1, 2));
  const TensorFile hf(at("hf"));
  for (const int t : {0, 1}) {
    for (const int e : {0, 1}) {
      const TorchFile file(at(fmt::format("m/iter_0000001/mp_rank_0{}_00{}/model_optim_rng.pt", t, e)));
      const Tensors mine = file.tensors("model");
      for (const int local : {0, 1}) {
        const std::string expert = fmt::format("model.layers.1.block_sparse_moe.experts.{}.", 2 * e + local);
        const std::string own = fmt::format("decoder.layers.1.mlp.experts.local_experts.{}.", local);
        for (int row = 0; row < 24; ++row) {
          expect_row(mine.at(own + "linear_fc1.weight"), row, hf.get(expert + "w1.weight"), 24 * t + row);
          expect_row(mine.at(own + "linear_fc1.weight"), 24 + row, hf.get(expert + "w3.weight"),
                     24 * t + row);
        }
        for (int row = 0; row < 32; ++row)
          expect_row(mine.at(own + "linear_fc2.weight"), row, hf.get(expert + "w2.weight"), row, 24 * t);
      }
      EXPECT_FALSE(mine.contains("decoder.layers.1.mlp.experts.local_experts.2.linear_fc1.weight"));
      for (int row = 0; row < 4; ++row)
        expect_row(mine.at("decoder.layers.1.mlp.router.weight"), row,
                   hf.get("model.layers.1.block_sparse_moe.gate.weight"), row);
      for (int row = 0; row < 32; ++row)
        expect_row(mine.at("decoder.layers.1.pre_mlp_layernorm.weight"), row,
                   hf.get("model.layers.1.post_attention_layernorm.weight"), row);
    }
  }
}

TEST_F(MegatronRulesTest, LatentAttentionSharedExpertsAndDenseLayersInFront) {
  make("hf", family_config(2, "deepseek_v3"));
  convert("hf", "m", ranks(2, 1));
  const TensorFile hf(at("hf"));
  const TorchFile file(at("m/iter_0000001/mp_rank_01/model_optim_rng.pt"));
  const Tensors mine = file.tensors("model");
  struct Case {
    const char* name;
    const char* theirs;
    std::vector<std::int64_t> shape;
    int row = 0;  // of theirs, where the rank's first is
    int col = 0;
  };
  // 4 heads of 10 + 6 queries and 10 + 12 keys and values; dense layers 48, experts 16, the shared one 32
  // wide.
  const std::vector<Case> cases = {
      {"0.input_layernorm.weight", "0.input_layernorm.weight", {32}},
      {"0.self_attention.linear_q_down_proj.weight", "0.self_attn.q_a_proj.weight", {20, 32}},
      {"0.self_attention.linear_q_up_proj.layer_norm_weight", "0.self_attn.q_a_layernorm.weight", {20}},
      {"0.self_attention.linear_q_up_proj.weight", "0.self_attn.q_b_proj.weight", {32, 20}, 32},
      {"0.self_attention.linear_kv_down_proj.weight", "0.self_attn.kv_a_proj_with_mqa.weight", {22, 32}},
      {"0.self_attention.linear_kv_up_proj.layer_norm_weight", "0.self_attn.kv_a_layernorm.weight", {16}},
      {"0.self_attention.linear_kv_up_proj.weight", "0.self_attn.kv_b_proj.weight", {44, 16}, 44},
      {"0.self_attention.linear_proj.weight", "0.self_attn.o_proj.weight", {32, 24}, 0, 24},
      {"0.mlp.linear_fc1.layer_norm_weight", "0.post_attention_layernorm.weight", {32}},
      {"0.mlp.linear_fc2.weight", "0.mlp.down_proj.weight", {32, 24}, 0, 24},
      {"1.pre_mlp_layernorm.weight", "1.post_attention_layernorm.weight", {32}},
      {"1.mlp.router.expert_bias", "1.mlp.gate.e_score_correction_bias", {8}},
      {"1.mlp.shared_experts.linear_fc2.weight", "1.mlp.shared_experts.down_proj.weight", {32, 16}, 0, 16},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const StoredTensor& own = mine.at(std::string("decoder.layers.") + each.name);
    ASSERT_EQ(own.shape, each.shape);
    for (int row = 0; row < own.shape.front(); ++row)
      expect_row(own, row, hf.get(std::string("model.layers.") + each.theirs), each.row + row, each.col);
  }
  const StoredTensor& fc1 = mine.at("decoder.layers.1.mlp.shared_experts.linear_fc1.weight");
  ASSERT_THAT(fc1.shape, testing::ElementsAre(32, 32));
  for (int row = 0; row < 16; ++row) {
    expect_row(fc1, row, hf.get("model.layers.1.mlp.shared_experts.gate_proj.weight"), 16 + row);
    expect_row(fc1, 16 + row, hf.get("model.layers.1.mlp.shared_experts.up_proj.weight"), 16 + row);
  }
}

TEST_F(MegatronRulesTest, Gpt2IsTransposedAndItsTableIsOnBothEnds) {
  make("hf", R"({"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":4,"n_positions":24,"vocab_size":61})");
  convert("hf", "m", ranks(2, 2));
  const TensorFile hf(at("hf"));
  const TorchFile file(at("m/iter_0000001/mp_rank_01_001/model_optim_rng.pt"));
  const Tensors mine = file.tensors("model");
  // Rank 1 has heads 2 and 3, 8 wide each: query, key, value of one head after the other. c_attn is (in,
  // out).
  const StoredTensor& qkv = mine.at("decoder.layers.0.self_attention.linear_qkv.weight");
  const StoredTensor& bias = mine.at("decoder.layers.0.self_attention.linear_qkv.bias");
  ASSERT_THAT(qkv.shape, testing::ElementsAre(48, 32));
  for (int row = 0; row < 48; ++row) {
    const int head = 2 + row / 24;
    const int part = row % 24 / 8;
    const int out = part * 32 + head * 8 + row % 8;
    for (int in = 0; in < 32; ++in)
      ASSERT_EQ(bits(qkv, row, in), bits(hf.get("transformer.h.1.attn.c_attn.weight"), in, out));
    ASSERT_EQ(bits(bias, row, 0), bits(hf.get("transformer.h.1.attn.c_attn.bias"), out, 0));
  }
  for (int row = 0; row < 32; ++row)
    expect_row(mine.at("decoder.layers.0.self_attention.linear_proj.bias"), row,
               hf.get("transformer.h.1.attn.c_proj.bias"), row);
  EXPECT_EQ(mine.at("output_layer.weight").shape.front(), 128);
  EXPECT_FALSE(mine.contains("embedding.word_embeddings.weight"));
}

}  // namespace
}  // namespace plumbline::convert::megatron_rules_test
