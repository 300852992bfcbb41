// DeepSeek's layers as torchtitan writes them: bytes of eager operators, what runs again, whose they are.
#include <map>
#include <string>
#include <string_view>

#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::torchtitan_deepseek_test {
namespace {

using namespace frameworks;

RunConfig deepseek(const char* software, const char* model = "deepseek-v2-lite") {
  RunConfig config = mixture(model, 1, 4, 0, 8);
  config.machine.software = software;
  config.parallel.dp.zero_stage = std::string_view(software) == "torchtitan-2025" ? 3 : 1;
  config.recompute.granularity = Recompute::full;
  return config;
}

/// A layer with experts.
StageShape layer_of(const RunConfig& config) {
  return shape_of(config).like({});
}

struct Found {
  std::map<std::string, double> bytes;     // per token, of memory-bound operators
  std::map<std::string, double> products;  // per token, weights of products
};

Found found_in(const UnitWork& work, const StageShape& shape) {
  Found found;
  const auto tokens = static_cast<double>(shape.stream.tokens);
  for (const OperatorCall& call : work.calls) {
    if (const auto* stream = call.as<StreamCall>())
      found.bytes[std::string(call.name())] +=
          static_cast<double>(stream->elements) * stream->bytes_per_element / tokens;
    if (const auto* product = call.as<GemmCall>())
      found.products[std::string(call.label)] +=
          static_cast<double>(product->tokens * product->batch * product->out * product->in) / tokens;
  }
  return found;
}

Found found_in(const RunConfig& config, LayerPass pass) {
  UnitWork work;
  framework_layer(layer_of(config), pass, 0, false, work);
  return found_in(work, layer_of(config));
}

constexpr double kHidden = 2048, kChosen = 6 * kHidden, kExperts = 6 * 1408, kShared = 2816, kScores = 64;
constexpr double kTurned = (16 + 1) * 64, kHeads = 16 * (128 + 64), kValues = 16 * 128;

TEST(TorchtitanDeepseek, MovesTheBytesOfItsEagerOperators) {
  struct Case {
    const char* name;
    double forward, backward;  // bytes per token
  };
  for (const Case& c :
       {Case{"rope", 20 * kTurned, 20 * kTurned},
        Case{"join parts of heads", 4 * 2 * kHeads, 4 * (kHeads + 2 * kValues + 512 + 64)},
        Case{"add gradients of heads", 0, 2 * 16 * 64}, Case{"router casts", 6 * kHidden, 6 * kHidden},
        Case{"route", 22 * kScores, 0}, Case{"route backward", 0, 16 * kScores},
        Case{"permute", 4 * kChosen, 4 * kChosen}, Case{"sort by expert", 8 * kChosen, (4 + 8) * kChosen},
        Case{"weigh results", 20 * kChosen, 0}, Case{"weigh backward", 0, 36 * kChosen},
        Case{"unpermute", 2 * kChosen + 10 * kHidden, 2 * kChosen + 6 * kHidden},
        Case{"swiglu", 10 * kExperts, 0}, Case{"swiglu backward", 0, 18 * kExperts},
        Case{"shared swiglu", 10 * kShared, 0}, Case{"shared swiglu backward", 0, 18 * kShared},
        Case{"add gradients of inputs", 0, 6 * kChosen + 12 * kHidden}}) {
    const RunConfig config = deepseek("torchtitan-2025");
    EXPECT_NEAR(found_in(config, LayerPass::forward).bytes[c.name], c.forward, 1) << c.name;
    EXPECT_NEAR(found_in(config, LayerPass::backward_input).bytes[c.name], c.backward, 1) << c.name;
  }
}

TEST(TorchtitanDeepseek, RunsAgainUpToTheSharedExpertsLastProduct) {
  const RunConfig config = deepseek("torchtitan-2025");
  UnitWork work;
  framework_recomputation(layer_of(config), 0, work);
  Found again = found_in(work, layer_of(config));
  Found whole = found_in(config, LayerPass::forward);
  EXPECT_EQ(whole.products["shared fc2"], kHidden * kShared);
  EXPECT_EQ(again.products.count("shared fc2"), 0U);
  for (const char* product : {"fc1", "fc2", "shared fc1", "router", "query"})
    EXPECT_EQ(again.products[product], whole.products[product]) << product;
  EXPECT_EQ(again.bytes["weigh results"], whole.bytes["weigh results"]);
  EXPECT_EQ(whole.bytes["add"] - again.bytes["add"], 2 * 6 * kHidden) << "shared experts', the layer's";
}

// Other models are written otherwise, other software too, and so is every dispatcher but the default one.
TEST(TorchtitanDeepseek, IsOnlyTorchtitansOwn) {
  EXPECT_EQ(found_in(deepseek("megatron-core"), LayerPass::forward).bytes.count("join parts of heads"), 0U);
  EXPECT_EQ(
      found_in(deepseek("torchtitan-2025", "qwen3-30b-a3b"), LayerPass::forward).bytes.count("router casts"),
      0U);
  RunConfig config = deepseek("torchtitan-2025");
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  const Found flex = found_in(config, LayerPass::forward);
  EXPECT_EQ(flex.bytes.count("router casts"), 0U);
  EXPECT_EQ(flex.bytes.count("join parts of heads"), 1U);
}

}  // namespace
}  // namespace plumbline::torchtitan_deepseek_test
