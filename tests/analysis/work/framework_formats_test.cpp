// FP8 and FP4 in other frameworks' steps.
#include "analysis/time/accelerator_time.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_formats_test {
namespace {

using namespace frameworks;

// 32 layers of 4096 x (4096 + 2 x 1024) + 4096 x 4096 + 3 x 4096 x 14336.
constexpr std::int64_t kWeights = 32 * 218103808LL;

// Transformer Engine's recipes: casts of a layer's forward, kept tensors, and memory of a rank.
TEST(FrameworkFp8, RecipesPriceTheirCastsAndProducts) {
  RunConfig config = llama("megatron-core-2025", 1, 1);
  const StageShape plain = first_shape(config);
  config.numerics.fp8.format = Fp8Format::hybrid;
  struct Case {
    Fp8Recipe recipe;
    double made_here, others;  // bytes per element of norms' and of other operators' outputs
  };
  for (const Case& c : {Case{Fp8Recipe::delayed, 0, 4}, Case{Fp8Recipe::tensorwise, 6, 6},
                        Case{Fp8Recipe::blockwise, 4.0625, 4.0625}, Case{Fp8Recipe::mxfp8, 4.0625, 4.0625}}) {
    config.numerics.fp8.recipe = c.recipe;
    const StageShape shape = first_shape(config);
    EXPECT_FALSE(shape.numerics.fp8);  // plumbline's own lists and tensors
    double cast = 0;
    int products = 0;
    for (const OperatorCall& call : forward_of_layer(shape)) {
      if (call.name() == "cast to fp8")
        cast += static_cast<double>(call.elements()) * call.as<StreamCall>()->bytes_per_element;
      const auto* gemm = call.as<GemmCall>();
      if (gemm == nullptr) continue;
      ++products;
      EXPECT_TRUE(gemm->fp8);
      EXPECT_EQ(gemm->block_scaled, c.recipe == Fp8Recipe::mxfp8);
    }
    EXPECT_EQ(products, 4);
    const double tokens = 4 * 1024;
    EXPECT_NEAR(cast, tokens * (2 * 4096 * c.made_here + (4096 + 14336) * c.others), 1) << c.others;
    // Results of the norms and of the activation in one byte, attention's in one besides its own two.
    EXPECT_EQ(framework_layer_bytes(plain) - framework_layer_bytes(shape),
              4 * 1024 * (2 * 4096 + 14336 - 4096));
  }
  const auto held = [&] { return held_bytes(config).total().value; };
  const std::int64_t with_copies = held();
  config.numerics.fp8.param_gather = true;
  EXPECT_EQ(with_copies - held(), 2 * kWeights);
}

// Columns of an operand besides its rows only where products need them.
TEST(FrameworkFp8, BlackwellNeedsOneFormOfATensorWithOneScale) {
  RunConfig config = llama("megatron-core-2025", 1, 1);
  config.numerics.fp8.format = Fp8Format::hybrid;
  struct Case {
    const char* hardware;
    Fp8Recipe recipe;
    int forms;
  };
  for (const Case& c :
       {Case{"h100-sxm-80gb", Fp8Recipe::delayed, 2}, Case{"b200-sxm-180gb", Fp8Recipe::delayed, 1},
        Case{"gb300-nvl72", Fp8Recipe::tensorwise, 1}, Case{"gb300-nvl72", Fp8Recipe::mxfp8, 2}}) {
    config.machine.hardware = c.hardware;
    config.numerics.fp8.recipe = c.recipe;
    config.numerics.fp8.param_gather = true;
    const auto held = [&] { return held_bytes(config)[Category::parameters].value; };
    const std::int64_t in_fp8 = held();
    config.numerics.fp8.param_gather = false;
    EXPECT_EQ(held() - in_fp8, 2 * kWeights) << c.hardware;  // those in 16 bit
    EXPECT_EQ(in_fp8, 2 * (std::int64_t{2} * 128256 * 4096 + 65 * 4096) + c.forms * kWeights) << c.hardware;
    for (const OperatorCall& call : forward_of_layer(first_shape(config))) {
      if (call.name() != "cast to fp8" || c.recipe == Fp8Recipe::mxfp8) continue;
      EXPECT_EQ(call.as<StreamCall>()->bytes_per_element,
                2 + c.forms + (c.recipe == Fp8Recipe::tensorwise ? 2 : 0));
    }
  }
}

// NVFP4: half a byte per element and a byte of scale for 16, in both forms; twice the rate or more.
TEST(FrameworkFp4, OperandsTakeNineSixteenthsOfAByte) {
  RunConfig config = llama("megatron-core-2026", 1, 1);
  config.machine.hardware = "b200-sxm-180gb";
  config.parallel.world_size = 16;
  const StageShape plain = first_shape(config);
  const auto held = [&] { return held_bytes(config).total().value; };
  const std::int64_t in_16_bit = held();
  const double step = predicted(config).time.step.value;
  config.numerics.fp4_format = Fp4Format::e2m1;
  EXPECT_EQ(16 * (held() - in_16_bit), 18 * kWeights);
  const StageShape shape = first_shape(config);
  const std::int64_t operands = 2 * 4096 + 14336;
  EXPECT_EQ(framework_layer_bytes(plain) - framework_layer_bytes(shape),
            4 * 1024 * (2 * operands - (operands + 4096) * 9 / 16));
  int casts = 0;
  for (const OperatorCall& call : forward_of_layer(shape)) {
    if (const auto* gemm = call.as<GemmCall>()) {
      EXPECT_TRUE(gemm->fp4 && !gemm->fp8) << label_of(call);
    } else if (call.name().starts_with("cast")) {
      ++casts;
      EXPECT_EQ(call.name(), "cast to fp4");
      EXPECT_EQ(call.as<StreamCall>()->bytes_per_element, 2 + 2 + 1.125);
    }
  }
  EXPECT_GT(casts, 0);
  EXPECT_LT(predicted(config).time.step.value, step);
  config.numerics.fp8.format = Fp8Format::hybrid;
  EXPECT_THAT(why_invalid(config).value_or(""), testing::HasSubstr("fp4_format: found e2m1 with fp8_format"));
  config.numerics.fp8.format = Fp8Format::none;
  for (const auto& [hardware, software, message] :
       {std::tuple{"h100-sxm-80gb", "megatron-core-2026", "found e2m1 on h100-sxm-80gb"},
        {"b200-sxm-180gb", "megatron-core-2024", "found e2m1 with megatron-core-2024"}}) {
    config.machine.hardware = hardware;
    config.machine.software = software;
    expect_refused(config, message);
  }
}

// Layers at the model's ends: their weights have no copies, their products and kept tensors 16 bits.
TEST(FrameworkFp8, LayersAtTheEndsStayIn16Bits) {
  RunConfig config = llama("megatron-core-2025", 1, 1);
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.world_size = 1;  // without messages times add up
  const std::int64_t plain = framework_layer_bytes(first_shape(config));
  const double in_16_bit = predicted(config).time.step.value;
  config.numerics.fp8.format = Fp8Format::hybrid;
  const std::int64_t held = held_bytes(config).total().value;
  const double in_fp8 = predicted(config).time.step.value;
  config.numerics.first_last_layers_bf16 = true;
  config.numerics.num_layers_at_start_in_bf16 = 3;
  EXPECT_EQ(held - held_bytes(config).total().value, (3 + 1) * 2 * kWeights / 32);
  const StageShape shape = first_shape(config);
  for (const int layer : {0, 2, 3, 30, 31}) {
    const StageShape like = shape.like(shape.kind_of(layer));
    const bool wide = layer < 3 || layer == 31;
    EXPECT_EQ(framework_layer_bytes(like) == plain, wide) << layer;
    for (const OperatorCall& call : forward_of_layer(like)) {
      const auto* gemm = call.as<GemmCall>();
      EXPECT_TRUE(gemm == nullptr || gemm->fp8 != wide) << layer;
      EXPECT_FALSE(wide && call.name().starts_with("cast")) << layer;
    }
  }
  const double step = predicted(config).time.step.value;
  EXPECT_NEAR((step - in_fp8) / (in_16_bit - in_fp8), 4 / 32.0, 0.02);
  config.parallel.pipeline = config.parallel.world_size = 2;
  EXPECT_TRUE(first_shape(config).kind_of(2).wide);
  EXPECT_FALSE(first_shape(config).kind_of(15).wide);
  config.numerics.num_layers_at_end_in_bf16 = 30;
  EXPECT_THAT(why_invalid(config).value_or(""), testing::HasSubstr("expected at most 32 together"));
}

// Attention keeps one byte of queries, keys, values and results; the backward's five products gain as the
// forward's two.
TEST(FrameworkFp8, AttentionGainsTimeAndMemory) {
  RunConfig config = llama("megatron-core-2025", 1, 1);
  config.machine.hardware = "h100-sxm-80gb";
  config.numerics.fp8.format = Fp8Format::hybrid;
  const StageShape plain = first_shape(config);
  config.numerics.fp8_dot_product_attention = true;
  const StageShape shape = first_shape(config);
  EXPECT_EQ(framework_layer_bytes(plain) - framework_layer_bytes(shape), 4 * 1024 * 2 * (4096 + 1024));
  const Device& device = built_in_profiles().machines.at("h100-sxm-80gb").device;
  const auto seconds = [&](bool backward, bool fp8) {
    AttentionCall call;
    call.backward = backward, call.fp8 = fp8, call.cudnn = true;
    call.queries = 8192, call.heads = 32, call.group = 4, call.head_dim = 128;
    return accelerator_time({.work = call, .type = DType::bf16}, device).value;
  };
  EXPECT_NEAR(seconds(false, true) / seconds(false, false), 0.86, 1e-9);
  EXPECT_NEAR(seconds(true, false) - seconds(true, true), 2.5 * 0.14 * seconds(false, false), 1e-9);
  double cast = 0;
  int kernels = 0;
  for (const OperatorCall& call : forward_of_layer(shape)) {
    if (const auto* attention = call.as<AttentionCall>()) kernels += attention->fp8 ? 1 : 0;
    if (call.name().starts_with("cast"))
      cast += static_cast<double>(call.elements()) * call.as<StreamCall>()->bytes_per_element;
  }
  EXPECT_EQ(kernels, 1);
  const double tokens = 4 * 1024;  // of linear layers' inputs, then of attention's operands and result
  EXPECT_NEAR(cast, tokens * ((4096 + 14336) * 4 + (4096 + 2 * 1024) * 3 + 4096 * 3), 1);
  config.machine.software = "torchtitan-float8";
  expect_refused(config, "fp8_dot_product_attention: found true with torchtitan-float8");
}

TEST(FrameworkFp8, WhatASoftwareOrDeviceHasNotIsRefused) {
  RunConfig config = llama("megatron-core-2024");
  config.machine.hardware = "h100-sxm-80gb";
  config.numerics.fp8.format = Fp8Format::hybrid;
  EXPECT_GT(predicted(config).time.step.value, 0);  // delayed
  config.numerics.fp8.recipe = Fp8Recipe::mxfp8;
  expect_refused(config, "fp8_recipe: found mxfp8 with megatron-core-2024, expected delayed");
  config.machine.software = "megatron-core-2025";
  expect_refused(config, "found mxfp8 on h100-sxm-80gb");
  config.machine.hardware = "b200-sxm-180gb";
  EXPECT_GT(predicted(config).time.step.value, 0);
}

}  // namespace
}  // namespace plumbline::framework_formats_test
