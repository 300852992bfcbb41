// FP8 linear layers (bench/training/fp8.md): allocations and frees of actions, multiplied out by hand.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::fp8_memory_test {
namespace {

using enum ActionType;
constexpr Category kParameters = Category::parameters;
constexpr Category kGradients = Category::gradients;
constexpr Category kActivations = Category::activations;
constexpr Category kLogits = Category::logits;
constexpr Category kCommunication = Category::communication;
constexpr Category kWorkspace = Category::workspace;

// Shape of tiny_hybrid: T = 16, h = 16, q = k = 16, F = 32, f = 64.
StageShape middle(const RunConfig& config) {
  StageShape shape = stage_shapes(config, 2)[0];
  shape.place.first = false;
  return shape;
}
// stream 16·16·2 = 512, its quantized form 256, statistics 64, qkv 16·48·2 = 1536, attention output 512
// and log-sum-exp 2·16·4 = 128, fc1 2048, activation output 1024, quantized 512. A forward keeps 2·(256 +
// 64) + 1536 + 640 + x2 512 + 2048 + 512 = 5888.
StageShape swiglu() {
  return middle(sample::tiny_hybrid());
}
// f = F: fc1 1024; keeps 4864.
StageShape gelu() {
  RunConfig config = sample::tiny_hybrid();
  config.model.activation = Activation::gelu;
  return middle(config);
}
// Two tensor ranks: stream 8·16·2 = 256, quantized 128, gathered 16·16 = 256, statistics 32, qkv 16·24·2
// = 768, attention output 256, log-sum-exp 64, fc1 1024, activation output 512, quantized 256; partial sums
// 1024, their piece 512. Keeps 2·160 + 768 + 320 + 256 + 1024 + 256 = 2944. Matrices 1280 elements.
StageShape sequence_parallel() {
  RunConfig config = sample::tiny_hybrid();
  config.parallel.world_size = config.parallel.tensor = 2;
  config.parallel.sequence_parallel = true;
  return middle(config);
}
// h = 64: stream 2048, quantized 1024; matrices qkv 3072, projection 1024, fc1 4096, fc2 2048 elements.
StageShape wide_stream() {
  RunConfig config = sample::tiny_hybrid();
  config.model.hidden = 64;
  return middle(config);
}
// h = 32, q = 128, k = 8: stream 1024, quantized 512, qkv 16·144·2 = 4608, attention output 4096, quantized
// 2048; GELU with F = 32. Keeps 2·576 + 4608 + 4224 + 1024 + 1024 + 512 = 12544.
StageShape wide_queries() {
  StageShape shape = gelu();
  shape.stream.hidden = 32;
  shape.attention.q = 128;
  shape.attention.k = 8;
  return shape;
}
// h = 64, q = 16, k = 128: stream 2048, quantized 1024, qkv 16·272·2 = 8704, quantized 4352; GELU with F =
// 16: fc1 and activation output 512, quantized 256. Keeps 2·1088 + 8704 + 640 + 2048 + 512 + 256 = 14336.
StageShape wide_keys() {
  StageShape shape = gelu();
  shape.stream.hidden = 64;
  shape.attention.k = 128;
  shape.mlp.ffn = shape.mlp.fc1 = 16;
  return shape;
}

// h = 64, q = k = 16, GELU with F = 16. Keeps 2·1088 + 1536 + 640 + 2048 + 512 + 256 = 7168.
StageShape narrow() {
  StageShape shape = wide_keys();
  shape.attention.k = 16;
  return shape;
}

StageShape tensorwise(StageShape shape) {
  shape.numerics.fp8_tensorwise = true;
  shape.numerics.fp8_history = 0;
  return shape;
}
StageShape with(StageShape shape, Recompute recompute) {
  shape.recomputation.granularity = recompute;
  if (recompute == Recompute::selective) shape.recomputation.modules = kCoreAttention;
  return shape;
}
StageShape with_zero(StageShape shape, int zero) {
  shape.sharding.zero = zero;
  shape.sharding.data = 2;
  return shape;
}
StageShape with_ffn(StageShape shape, std::int64_t width) {
  shape.mlp.ffn = shape.mlp.fc1 = width;
  return shape;
}
StageShape dropping(StageShape shape) {
  shape.block.dropout = true;
  return shape;
}
StageShape with_type(StageShape shape, DType type) {
  shape.numerics.type = type;
  return shape;
}
StageShape last(StageShape shape) {
  shape.place.last = true;
  return shape;
}

MemoryBreakdown bytes(std::initializer_list<std::pair<Category, std::int64_t>> parts) {
  MemoryBreakdown memory;
  for (const auto& [category, value] : parts) memory[category].value = value;
  return memory;
}

struct ActionCase {
  const char* name;
  StageShape shape;
  ActionType type;
  MemoryBreakdown peak;
  MemoryBreakdown net;
};

std::vector<ActionCase> forward_cases() {
  const MemoryBreakdown norm_and_activation = bytes({{kActivations, 5888}, {kWorkspace, 1024}});
  return {
      {"both activation outputs", swiglu(), forward, norm_and_activation, bytes({{kActivations, 5888}})},
      {"fp32 storage: 2·320 + 3072 + 1152 + 1024 + 4096 + 512", with_type(swiglu(), DType::fp32), forward,
       bytes({{kActivations, 10496}, {kWorkspace, 2048}}), bytes({{kActivations, 10496}})},
      {"full recomputation", with(swiglu(), Recompute::full), forward, norm_and_activation, {}},
      {"last stage: y, final norm and logits 16·32·2 in the storage type, 3·16·4 for the loss",
       last(swiglu()), forward, bytes({{kActivations, 5888 + 512 + 576}, {kLogits, 1024}, {kWorkspace, 192}}),
       bytes({{kActivations, 5888 + 512 + 576}, {kLogits, 1024}})},
      {"selective: quantized attention output with it and x2", with(wide_queries(), Recompute::selective),
       // 576 + 4608 + 4224 + 1024
       forward, bytes({{kActivations, 10432}, {kWorkspace, 2048}}), bytes({{kActivations, 12544 - 4224}})},
      {"sequence parallel: partial sums and their piece", sequence_parallel(), forward,
       bytes({{kActivations, 2944}, {kWorkspace, 1536}}), bytes({{kActivations, 2944}})},
      {"ZeRO 3: the quantized weights of fc1", with_zero(wide_stream(), 3), forward,
       // 2·1088 + 1536 + 640 + 2048 + 2048; gathered 10240 elements
       bytes({{kParameters, 20480}, {kActivations, 8448}, {kWorkspace, 4096}}),
       bytes({{kActivations, 8448 + 512}})},
      {"ZeRO 3, sequence parallel: those of fc2 while it is summed", with_zero(sequence_parallel(), 3),
       forward, bytes({{kParameters, 2560}, {kActivations, 2944}, {kWorkspace, 256 + 1536}}),
       bytes({{kActivations, 2944}})},
      {"ZeRO 3: those of the projection, 32·128", with_zero(wide_queries(), 3), forward,
       // gathered 144·32 + 4096 + 2·1024 elements
       bytes({{kParameters, 21504}, {kActivations, 10432}, {kWorkspace, 2048 + 4096}}),
       bytes({{kActivations, 12544}})},
      {"ZeRO 3: those of qkv, 272·64", with_zero(wide_keys(), 3), forward,
       // norm 1088, qkv 8704; gathered 17408 + 3·1024 elements
       bytes({{kParameters, 40960}, {kActivations, 9792}, {kWorkspace, 17408}}),
       bytes({{kActivations, 14336}})},
      {"tensorwise: three scales of 12 bytes", tensorwise(swiglu()), forward,
       bytes({{kActivations, 5888 + 36}, {kWorkspace, 1024}}), bytes({{kActivations, 5888 + 36}})},
      {"tensorwise: a quantized attention output has one too",
       with(tensorwise(wide_queries()), Recompute::selective), forward,
       bytes({{kActivations, 10432 + 12}, {kWorkspace, 2048 + 12}}), bytes({{kActivations, 8320 + 36}})},
      {"tensorwise, ZeRO 3: weights have none", with_zero(tensorwise(wide_stream()), 3), forward,
       bytes({{kParameters, 20480}, {kActivations, 8448 + 24}, {kWorkspace, 4096}}),
       bytes({{kActivations, 8448 + 512 + 36}})},
  };
}

std::vector<ActionCase> backward_cases() {
  return {
      {"fc2 weight gradient: gradient 256, dact 1024, transposed 16·(16 + 32)", gelu(), backward,
       bytes({{kWorkspace, 256 + 1024 + 768}}), bytes({{kActivations, -4864 - 512}, {kCommunication, -512}})},
      {"SwiGLU: dact and dfc1", swiglu(), backward, bytes({{kActivations, -512}, {kWorkspace, 3072}}),
       bytes({{kActivations, -5888 - 512}, {kCommunication, -512}})},
      {"projection weight gradient: 512 + dattn 4096 + 2048 + transposed 16·(32 + 128)",
       with(wide_queries(), Recompute::selective), backward,
       // activation output 512, fc1 1024, norm 512, x2 1088 gone, attention 4224 again
       bytes({{kActivations, -3136 + 4224}, {kWorkspace, 9216}}),
       bytes({{kActivations, -12544 + 4224 - 1024}, {kCommunication, -1024}})},
      {"qkv weight gradient: dqkv 8704, quantized 4352, dn 2048, transposed 16·(272 + 64)", wide_keys(),
       // activation output 256, fc1 512, norm 1024, x2 2112, attention 640, qkv 8704 gone
       backward, bytes({{kActivations, -13248}, {kWorkspace, 20480}}),
       bytes({{kActivations, -14336 - 2048}, {kCommunication, -2048}})},
      {"fc1 weight gradient: dfc1 512, quantized 256, dn 2048, transposed 16·(16 + 64)", narrow(), backward,
       bytes({{kActivations, -256 - 512}, {kWorkspace, 4096}}),
       bytes({{kActivations, -7168 - 2048}, {kCommunication, -2048}})},
      {"dropout: from dropped 512, with its quantized form", dropping(gelu()), backward,
       bytes({{kActivations, -256}, {kWorkspace, 512 + 2048}}),
       bytes({{kActivations, -4864 - 512 - 512}, {kCommunication, -512}})},
      {"full recomputation: 5888 again", with(swiglu(), Recompute::full), backward,
       bytes({{kActivations, 5888 - 512}, {kWorkspace, 3072}}),
       bytes({{kActivations, -512}, {kCommunication, -512}})},
      {"sequence parallel: dfc1 1024, quantized 512, dn 256, its sum", sequence_parallel(), backward,
       bytes({{kActivations, -1280}, {kWorkspace, 1792 + 1536}}),
       bytes({{kActivations, -2944 - 256}, {kCommunication, -256}})},
      {"ZeRO 3: the transpose of fc1's weights", with_zero(wide_stream(), 3), backward,
       // dfc1 2048, quantized 1024, dn 2048; the unit's gradient 40960
       bytes({{kParameters, 20480}, {kGradients, 40960}, {kActivations, -2560}, {kWorkspace, 5120 + 4096}}),
       bytes({{kActivations, -8448 - 512 - 2048}, {kCommunication, -2048}})},
      {"ZeRO 3, sequence parallel: the transpose alone while dn is summed", with_zero(sequence_parallel(), 3),
       backward,
       bytes(
           {{kParameters, 2560}, {kGradients, 5120}, {kActivations, -1280}, {kWorkspace, 1792 + 512 + 1536}}),
       bytes({{kActivations, -2944 - 256}, {kCommunication, -256}})},
      {"ZeRO 3: the projection's weight gradient, more than its weights' transpose",
       with_zero(wide_queries(), 3), backward,
       // gradient 512, dattn 4096, attention output 2048
       bytes({{kParameters, 21504},
              {kGradients, 43008},
              {kActivations, -3136},
              {kWorkspace, 512 + 4096 + 2048 + 16 * (32 + 128)}}),
       bytes({{kActivations, -12544 - 1024}, {kCommunication, -1024}})},
      {"ZeRO 3: qkv's", with_zero(wide_keys(), 3), backward,
       bytes(
           {{kParameters, 40960}, {kGradients, 81920}, {kActivations, -13248}, {kWorkspace, 15104 + 17408}}),
       bytes({{kActivations, -14336 - 2048}, {kCommunication, -2048}})},
      {"tensorwise: transposed tensors have no scale", tensorwise(gelu()), backward,
       bytes({{kWorkspace, 2048 + 12}}), bytes({{kActivations, -4864 - 36 - 512}, {kCommunication, -512}})},
  };
}

std::vector<ActionCase> split_cases() {
  return {
      {"I, GELU: dqkv and dattn", gelu(), backward_input,
       // dfc1 for fc1, dmid for x2, less 64 of statistics
       bytes({{kActivations, -64 + 1536}, {kWorkspace, 512}}), bytes({{kActivations, -768}})},
      {"I, SwiGLU", swiglu(), backward_input, bytes({{kActivations, 2048}, {kWorkspace, 1024}}),
       // statistics twice, log-sum-exp, x; dmid stands for x2
       bytes({{kActivations, -64 - 64 - 128 - 512}})},
      {"I, ZeRO 3: the transpose of fc1's weights, quantized gradient 1024, dn 2048",
       with_zero(wide_stream(), 3), backward_input, bytes({{kParameters, 20480}, {kWorkspace, 3072 + 4096}}),
       bytes({{kActivations, -64 - 64 - 128 - 2048}})},
      {"I, ZeRO 3: fc2's, with F = 128", with_zero(with_ffn(gelu(), 128), 3), backward_input,
       // dact 4096, which becomes dfc1; gathered 768 + 256 + 2·2048 elements
       bytes({{kParameters, 10240}, {kActivations, 4096}, {kWorkspace, 256 + 2048}}),
       bytes({{kActivations, -768}})},
      {"I, ZeRO 3: the projection's", with_zero(wide_queries(), 3), backward_input,
       bytes({{kParameters, 21504}, {kActivations, -64}, {kWorkspace, 4608 + 4096}}),
       bytes({{kActivations, -64 - 64 - 128 - 1024}})},
      {"I, ZeRO 3: qkv's", with_zero(wide_keys(), 3), backward_input,
       // quantized gradient 4352, dn 2048
       bytes({{kParameters, 40960}, {kActivations, -64 - 128}, {kWorkspace, 6400 + 17408}}),
       bytes({{kActivations, -64 - 64 - 128 - 2048}})},
      {"W: fc2 weight gradient 1024 + 16·(64 + 16)", narrow(), backward_weight, bytes({{kWorkspace, 2304}}),
       // 256 + 512 + 1024 + 512 + 2048 + 1536 + 1024
       bytes({{kActivations, -6912}, {kCommunication, -2048}})},
      {"W: fc1 weight gradient 1024 + 16·(64 + 16)", swiglu(), backward_weight,
       bytes({{kActivations, -512}, {kCommunication, -512}, {kWorkspace, 2304}}),
       bytes({{kActivations, -5632}, {kCommunication, -512}})},
      {"W: projection weight gradient 512 + 2048 + 16·(32 + 128)", wide_queries(), backward_weight,
       // activation output 512, dfc1 1024, norm 512 gone
       bytes({{kActivations, -2048}, {kCommunication, -1024}, {kWorkspace, 5120}}),
       bytes({{kActivations, -2048 - 5120 - 5120}, {kCommunication, -1024}})},
      {"W: qkv weight gradient 4352 + 16·(272 + 64)", wide_keys(), backward_weight,
       // activation output 256, dfc1 512, norm 1024, attention output 512, dmid 2048 gone
       bytes({{kActivations, -4352}, {kCommunication, -2048}, {kWorkspace, 9728}}),
       bytes({{kActivations, -4352 - 8704 - 1024}, {kCommunication, -2048}})},
      {"W, ZeRO 2, sequence parallel: fc1's 512, gathered 256, transposed 16·(32 + 16)",
       // activation output and dy gone; the unit's gradient is there since fc2's
       with_zero(sequence_parallel(), 2), backward_weight,
       bytes({{kGradients, 5120}, {kActivations, -256}, {kCommunication, -256}, {kWorkspace, 1536}}),
       bytes({{kActivations, -2816}, {kCommunication, -256}})},
      {"W, tensorwise: the gradient's scale", tensorwise(swiglu()), backward_weight,
       bytes({{kActivations, -512 - 12}, {kCommunication, -512}, {kWorkspace, 2304 + 12}}),
       bytes({{kActivations, -5632 - 36}, {kCommunication, -512}})},
  };
}

TEST(Fp8Memory, ActionsByHand) {
  for (const auto& cases : {forward_cases(), backward_cases(), split_cases()}) {
    for (const ActionCase& c : cases) {
      SCOPED_TRACE(c.name);
      const ActionProfile profile = action_profile(c.shape, c.type);
      for (int i = 0; i < kCategories; ++i) {
        const auto category = static_cast<Category>(i);
        EXPECT_EQ(profile.peak[category].value, c.peak[category].value) << "peak " << name_of(category);
        EXPECT_EQ(profile.net[category].value, c.net[category].value) << "net " << name_of(category);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::fp8_memory_test
