// Models that --hybrid-layer-pattern describes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::hybrid_pattern_test {
namespace {

using testing::HasSubstr;

const std::string kFlags =
    "--hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length "
    "4096 "
    "--max-position-embeddings 8192 --normalization RMSNorm --disable-bias-linear "
    "--untie-embeddings-and-output-weights --vocab-size 131072 --micro-batch-size 1 --bf16 ";
const std::string kUsual = kFlags + "--swiglu --ffn-hidden-size 14336 --position-embedding-type rope ";
const std::string kMixed =
    kFlags +
    "--squared-relu --ffn-hidden-size 21504 --position-embedding-type none "
    "--mamba-head-dim 64 --mamba-num-heads 128 --mamba-num-groups 8 --mamba-state-dim 128 ";

RunConfig load(const std::string& flags, const char* gpus = "8") {
  return load_run_config(flags, {{"gpus", gpus}});
}

TEST(HybridPattern, AttentionWithAnMlpBehindItIsTheUsualLayer) {
  const RunConfig config = load(kUsual + "--hybrid-layer-pattern *-*-*-*-");
  const RunConfig plain = load(kUsual + "--num-layers 4");
  EXPECT_EQ(config.model.layers, 4);
  EXPECT_EQ(config.model.architecture, plain.model.architecture);
  EXPECT_EQ(config.model.parameters(), plain.model.parameters());
  const std::string experts = kUsual + "--num-experts 8 --moe-router-topk 2 ";
  EXPECT_EQ(load(experts + "--hybrid-layer-pattern *E*E").model.parameters(),
            load(experts + "--num-layers 2").model.parameters());
  EXPECT_EQ(load(experts + "--hybrid-layer-pattern *-*-").model.mixture.experts, 0);
  EXPECT_EQ(find_config_key("layer_distribution")
                ->print(load(kUsual + "--pipeline-model-parallel-size 2 --hybrid-layer-pattern \"*-|*-*-\"")),
            "1,2");
}

// nvidia/Nemotron-H-8B-Base-8K, 8.1 B parameters.
TEST(HybridPattern, LayersOfASingleBlockAreNemotrons) {
  const std::string pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
  const RunConfig config = load(kMixed + "--hybrid-layer-pattern " + pattern);
  EXPECT_EQ(config.model.architecture, "nemotron_h");
  EXPECT_EQ(config.model.layers, 52);
  EXPECT_NEAR(static_cast<double>(config.model.parameters()) / 1e9, 8.1, 0.05);
  EXPECT_EQ(load(kMixed + "--num-layers 52 --hybrid-layer-pattern " + pattern).model.parameters(),
            config.model.parameters());
}

TEST(HybridPattern, OthersAreRefusedByTheirFlag) {
  struct Case {
    std::string flags;
    const char* reason;
  };
  for (const Case& each :
       {Case{kUsual + "--hybrid-layer-pattern G-G-", "expected layers by the letters M, *, - and E"},
        {kUsual + "--num-layers 2 --spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec",
         "expected attention in every layer, or --hybrid-layer-pattern beside it"},
        {kMixed + "--hybrid-layer-pattern M-M-/M", "expected layers by the letters M, *, - and E"},
        {kUsual + "--num-layers 3 --hybrid-layer-pattern *-*-",
         "--num-layers: found \"3\", expected the 4 letters"},
        {kUsual + "--hybrid-layer-pattern M-*-",
         "--hybrid-layer-pattern: found RMSNorm with activation silu"},
        {kMixed + "--hybrid-layer-pattern \"M-|*-\"",
         "expected as many stages as --pipeline-model-parallel-size"},
        {kMixed + "--hybrid-layer-pattern *--*", "expected a Mamba mixer, or an MLP or experts behind"}}) {
    const std::string refusal = test::refusal_of([&] { load(each.flags); });
    EXPECT_THAT(refusal, HasSubstr(each.reason)) << each.flags;
    EXPECT_THAT(refusal, testing::Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace plumbline::hybrid_pattern_test
