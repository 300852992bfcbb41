// The emulated operators: no memory is touched, disagreeing shapes are refused, every call has its time.
#include "kernels/emulated/emulated_operators.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::emulated_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Memory that does not exist: touching it would end the test.
Matrix nowhere(std::int64_t rows, std::int64_t cols, DType type = DType::bf16) {
  return {reinterpret_cast<void*>(4096), rows, cols, type};  // NOLINT: never dereferenced
}

/// Operators that record their requests, each call costing a second on a clock without real time.
struct Recorder {
  std::vector<EmulatedCall> calls;
  EmulatedClock clock{1e-9};
  std::unique_ptr<Operators> operators = make_emulated_operators(clock, [this](const EmulatedCall& call) {
    calls.push_back(call);
    return Seconds{1e3};
  });
  EmulatedCall last() const { return calls.back(); }
};

TEST(Emulated, CallsCarryWhatTheirTimeDependsOn) {
  Recorder r;
  Operators& ops = *r.operators;
  const std::int64_t t = 1'000'000;  // larger than this machine's memory with these widths
  ops.gemm({nowhere(t, 512), nowhere(2048, 512), nowhere(t, 2048), false, true});
  EXPECT_EQ(r.last().m, t);
  EXPECT_EQ(r.last().n, 2048);
  EXPECT_EQ(r.last().k, 512);
  EXPECT_TRUE(r.last().b_transposed);
  ops.gemm({nowhere(t, 2048), nowhere(t, 512), nowhere(2048, 512, DType::fp32), true, false, true});
  EXPECT_EQ(r.last().m, 2048);
  EXPECT_EQ(r.last().n, 512);
  EXPECT_EQ(r.last().k, t);
  EXPECT_TRUE(r.last().a_transposed);
  EXPECT_FALSE(r.last().bias_gradient);
  ops.gemm({.a = nowhere(t, 2048),
            .b = nowhere(t, 512),
            .c = nowhere(2048, 512, DType::fp32),
            .a_transposed = true,
            .accumulate = true,
            .bias_gradient = nowhere(1, 2048, DType::fp32)});
  EXPECT_TRUE(r.last().bias_gradient);  // a kind of call of its own
  const Matrix one = nowhere(1, 1, DType::fp32);
  const Matrix x8 = nowhere(t, 512, DType::fp8_e4m3);
  ops.gemm({.a = x8,
            .b = nowhere(2048, 512, DType::fp8_e5m2),
            .c = nowhere(t, 2048),
            .b_transposed = true,
            .a_inverse_scale = one,
            .b_inverse_scale = one});
  EXPECT_EQ(r.last().type, DType::fp8_e4m3);
  EXPECT_EQ(r.last().k, 512);

  struct Case {
    const char* name;
    std::function<void()> call;
    std::int64_t elements;
    double bytes_per_element;
  };
  const Matrix x = nowhere(t, 512);
  const Matrix half = nowhere(t / 2, 512);  // a call like one before is asked for once
  const Matrix w = nowhere(1, 512);
  const Matrix dw = nowhere(1, 512, DType::fp32);
  const Matrix rows = nowhere(1, t, DType::fp32);
  const Matrix ids = nowhere(1, t, DType::int32);
  const Matrix mask = nowhere(t, 512, DType::uint8);
  const Matrix table = nowhere(50'000, 512);
  const Matrix p = nowhere(1, 512 * 512);
  const Matrix f = nowhere(1, 512 * 512, DType::fp32);
  const Matrix row_sums = nowhere(2, 512, DType::fp32);
  const std::int64_t n = t * 512;
  const Case cases[] = {
      {"rmsnorm_forward", [&] { ops.rmsnorm_forward(x, w, x, rows, 1e-5); }, n, 4},
      {"add_rmsnorm_forward",
       [&] {
         ops.add_rmsnorm_forward({x, x, 1, w, x}, w, x, rows, 1e-5);
       },
       n, 8},
      {"add_layernorm_forward",
       [&] {
         ops.add_layernorm_forward({x, x, 1, {}, x}, w, w, x, rows, rows, 1e-5);
       },
       n, 8},
      {"rmsnorm_backward", [&] { ops.rmsnorm_backward(x, x, w, rows, x, x, dw); }, n, 8},
      {"rmsnorm_backward", [&] { ops.rmsnorm_backward(x, x, w, rows, {}, x, dw); }, n, 6},
      {"layernorm_forward", [&] { ops.layernorm_forward(x, w, w, x, rows, rows, 1e-5); }, n, 4},
      {"layernorm_backward", [&] { ops.layernorm_backward(x, x, w, rows, rows, x, x, dw, dw); }, n, 8},
      {"rope",
       [&] { ops.rope(x, nowhere(1000, 32, DType::fp32), nowhere(1000, 32, DType::fp32), 64, false); }, n, 4},
      {"rope",
       [&] {
         ops.rope_neighbours(half, nowhere(1000, 16, DType::fp32), nowhere(1000, 16, DType::fp32), 64, false);
       },
       n / 2, 4},
      {"head_norm_forward",
       [&] { ops.head_norm_forward(x, nowhere(1, 64), x, nowhere(t, 8, DType::fp32), 1e-5); }, n, 4},
      {"head_norm_backward",
       [&] {
         ops.head_norm_backward(x, x, nowhere(1, 64), nowhere(t, 8, DType::fp32), x,
                                nowhere(1, 64, DType::fp32));
       },
       n, 6},
      {"add", [&] { ops.add_multiple(half, half, 2, {}, half); }, n / 2, 6},
      {"row_products", [&] { ops.row_products(p, p, 0, 512, row_sums); }, 512 * 512, 4},
      {"remove_row_parts", [&] { ops.remove_row_parts(p, p, 0, 512, row_sums); }, 512 * 512, 6},
      {"scale_columns", [&] { ops.scale_columns(x, nowhere(1, 512, DType::fp32)); }, n, 4},
      {"position_forward", [&] { ops.embedding_add(nowhere(1, t / 2, DType::int32), nowhere(9, 512), half); },
       n / 2, 6},
      {"swiglu_forward", [&] { ops.geglu_forward(nowhere(t / 2, 1024), half); }, n, 3},
      {"swiglu_backward", [&] { ops.geglu_backward(half, nowhere(t / 2, 1024), nowhere(t / 2, 1024)); }, n,
       5},
      {"gelu_forward", [&] { ops.pointwise_forward(Pointwise::relu, half, half); }, n / 2, 4},
      {"gelu_backward", [&] { ops.pointwise_backward(Pointwise::relu, half, half, half); }, n / 2, 6},
      {"swiglu_forward", [&] { ops.swiglu_forward(nowhere(t, 1024), x); }, 2 * n, 3},
      {"swiglu_backward", [&] { ops.swiglu_backward(x, nowhere(t, 1024), nowhere(t, 1024)); }, 2 * n, 5},
      {"gelu_forward", [&] { ops.gelu_forward(x, x); }, n, 4},
      {"gelu_backward", [&] { ops.gelu_backward(x, x, x); }, n, 6},
      {"add", [&] { ops.add(x, x, w, x); }, n, 6},
      {"dropout_mask",
       [&] {
         ops.dropout_mask({0.1, 1, 1, 1, 0}, mask);
       },
       n, 1},
      {"dropout_add", [&] { ops.dropout_add(x, w, x, mask, 0.1, x); }, n, 7},
      {"dropout_add", [&] { ops.dropout_add(x, {}, {}, mask, 0.1, x); }, n, 5},
      {"dropout_backward", [&] { ops.dropout_backward(x, mask, 0.1, x); }, n, 5},
      {"bias_backward", [&] { ops.bias_backward(x, dw); }, n, 2},
      {"embedding_forward", [&] { ops.embedding_forward(ids, table, 0, x); }, n, 4},
      {"embedding_backward", [&] { ops.embedding_backward(ids, x, 0, nowhere(50'000, 512, DType::fp32)); }, n,
       10},
      {"position_forward", [&] { ops.position_forward(x, table, 1000); }, n, 6},
      {"position_backward", [&] { ops.position_backward(x, nowhere(1000, 512, DType::fp32), 1000); }, n, 10},
      {"cross_entropy_max", [&] { ops.cross_entropy_max(x, 500, rows); }, n, 2},
      {"cross_entropy_sums",
       [&] { ops.cross_entropy_sums(x, 500, 0, ids, rows, nowhere(2, t, DType::fp32)); }, n, 2},
      {"greedy_choice", [&] { ops.greedy_choice(x, 500, nowhere(3, t, DType::fp32)); }, n, 2},
      {"cross_entropy_gradient",
       [&] { ops.cross_entropy_gradient(x, 500, 0, ids, rows, nowhere(2, t, DType::fp32), 1); }, n, 4},
      {"cross_entropy_sums", [&] { ops.entropy_sums(nowhere(t, 64), 60, rows, rows); }, n / 8, 2},
      {"cross_entropy_gradient",
       [&] { ops.policy_gradient(nowhere(t, 32), 30, 0, ids, rows, nowhere(3, t, DType::fp32)); }, n / 16, 4},
      {"cross_entropy_gradient",
       [&] { ops.value_loss(ids, rows, nowhere(4, t, DType::fp32), 0.2, 1, nowhere(t, 1)); }, 4 * t, 5.5},
      {"cross_entropy_gradient", [&] { ops.vocab_softmax(nowhere(t, 256), 250, rows, rows); }, n / 2, 4},
      {"cross_entropy_gradient", [&] { ops.vocab_gradient(nowhere(t, 128), 99, 0, ids, rows, 1); }, n / 4, 4},
      {"add", [&] { ops.vocab_input_gradient(nowhere(t, 512, DType::fp32), table, 0, ids, rows, 1); }, n, 12},
      {"fp8_amax", [&] { ops.fp8_amax(x, one); }, n, 2},
      {"fp8_scales",
       [&] { ops.fp8_scales(nowhere(1024, 6, DType::fp32), 448, 0, nowhere(2, 6, DType::fp32)); }, 1024 * 6,
       4 + 2 * 4 / 1024.0},
      {"fp8_quantize", [&] { ops.fp8_quantize(x, nowhere(2, 1, DType::fp32), one, x8); }, n, 3},
      {"fp8_quantize_transpose",
       [&] {
         ops.fp8_quantize_transpose(x, nowhere(2, 1, DType::fp32), one, x8, nowhere(512, t, DType::fp8_e4m3));
       },
       n, 4},
      {"fp8_quantize_transpose",
       [&] {
         ops.fp8_quantize_transpose(x, nowhere(2, 1, DType::fp32), {}, {}, nowhere(512, t, DType::fp8_e4m3));
       },
       n, 3},
      {"fp8_transpose", [&] { ops.fp8_transpose(x8, nowhere(512, t, DType::fp8_e4m3)); }, n, 2},
      {"adam", [&] { ops.adam(p, f, f, f, f, {}); }, 512 * 512, 2 * 2 + 4 + 3 * 8},
      {"adam", [&] { ops.adam(f, f, {}, f, f, {}); }, 512 * 512, 2 * 4 + 4 + 2 * 8},
      {"sgd", [&] { ops.sgd(p, f, f, {}); }, 512 * 512, 2 * 2 + 4 + 8},
      {"lion", [&] { ops.lion(p, f, f, f, {}); }, 512 * 512, 2 * 2 + 4 + 2 * 8},
      {"momentum", [&] { ops.momentum(f, f, p, {}); }, 512 * 512, 4 + 8 + 2},
      {"normalize", [&] { ops.normalize(p, 1e-15); }, 512 * 512, 6},
      {"weighted_sum", [&] { ops.weighted_sum(p, 1, p, 1, p); }, 512 * 512, 6},
      {"squared_norm", [&] { (void)ops.squared_norm(f); }, 512 * 512, 4},
      {"fill", [&] { ops.fill(f, 0); }, 512 * 512, 4},
      {"copy", [&] { ops.copy(f, p); }, 512 * 512, 6},
      {"scale", [&] { ops.scale(p, 2); }, 512 * 512, 4},
  };
  for (const Case& c : cases) {
    const std::size_t before = r.calls.size();
    c.call();
    ASSERT_EQ(r.calls.size(), before + 1) << c.name;
    EXPECT_EQ(r.last().name, c.name);
    EXPECT_EQ(r.last().elements, c.elements) << c.name;
    EXPECT_EQ(static_cast<double>(r.last().bytes), c.bytes_per_element * static_cast<double>(c.elements))
        << c.name;
  }
  const Seconds before = r.clock.position();
  const std::size_t asked = r.calls.size();
  ops.scale(p, 3);  // known: its time is not asked again, but taken again
  EXPECT_EQ(r.calls.size(), asked);
  EXPECT_GE((r.clock.position() - before).value, 1e3);
}

TEST(Emulated, AttentionThatDropsHasANameOfItsOwn) {
  Recorder r;
  const Matrix x = nowhere(8, 16);
  const Matrix k = nowhere(8, 8);
  const Matrix lse = nowhere(4, 4, DType::fp32);
  AttentionShape shape{2, 4, 2, 1, 8};
  const Matrix scratch = nowhere(1, r.operators->attention_scratch(shape, DType::bf16), DType::fp32);
  const Matrix square = nowhere(16, 4);
  const UnfusedAttention kept{square, square, nowhere(16, 4, DType::uint8), square, nowhere(8, 16)};
  for (const double p : {0.0, 0.1}) {
    shape.dropout.probability = p;
    for (const std::uint32_t step : {1U, 2U}) {  // of the same time
      shape.dropout.step = step;
      r.operators->attention_forward(shape, x, k, k, x, lse, scratch);
      r.operators->attention_backward(shape, x, k, k, x, lse, x, x, k, k, scratch);
      r.operators->unfused_attention_forward(shape, x, k, k, kept, x, lse, scratch);
      r.operators->unfused_attention_backward(shape, x, k, k, kept, x, x, k, k, scratch);
    }
  }
  std::vector<std::string_view> names;
  for (const EmulatedCall& call : r.calls) names.push_back(call.name);
  EXPECT_THAT(names,
              testing::ElementsAre("attention_forward", "attention_backward", "unfused_attention_forward",
                                   "unfused_attention_backward", "attention_forward_dropout",
                                   "attention_backward_dropout", "unfused_attention_forward_dropout",
                                   "unfused_attention_backward_dropout"));
  EXPECT_EQ(r.last().attention.seq, 4);
}

TEST(Emulated, EveryWindowIsAKindOfCallOfItsOwn) {
  Recorder r;
  const Matrix x = nowhere(8, 16);
  const Matrix k = nowhere(8, 8);
  const Matrix lse = nowhere(4, 4, DType::fp32);
  AttentionShape shape{2, 4, 2, 1, 8};
  const Matrix scratch = nowhere(1, r.operators->attention_scratch(shape, DType::bf16), DType::fp32);
  for (const std::int64_t window : {0, 2, 3, 2, 0}) {
    shape.window = window;
    r.operators->attention_forward(shape, x, k, k, x, lse, scratch);
  }
  std::vector<std::int64_t> windows;
  for (const EmulatedCall& call : r.calls) windows.push_back(call.attention.window);
  EXPECT_THAT(windows, testing::ElementsAre(0, 2, 3));
}

TEST(Emulated, RefusesShapesThatDisagree) {
  EmulatedClock clock(0);
  const auto ops = make_emulated_operators(clock, {});
  EXPECT_THAT(
      [&] {
        ops->gemm({nowhere(4, 5), nowhere(6, 7), nowhere(4, 6), false, true});
      },
      ThrowsMessage<Error>(
          HasSubstr("gemm (B transposed): shapes or types disagree: A 4x5 bf16, B 6x7 bf16")));
  const Matrix x = nowhere(8, 16);
  const Matrix other = nowhere(8, 15);
  const Matrix mask = nowhere(8, 16, DType::uint8);
  const Matrix rows = nowhere(1, 8, DType::fp32);
  EXPECT_THROW(ops->rmsnorm_forward(x, nowhere(1, 16), other, rows, 1e-5), Error);
  EXPECT_THROW(ops->rmsnorm_forward(x, nowhere(1, 16), x, nowhere(1, 8), 1e-5), Error);
  EXPECT_THROW(ops->swiglu_forward(x, other), Error);
  EXPECT_THROW(ops->add(x, other, {}, x), Error);
  EXPECT_THROW(ops->embedding_forward(nowhere(1, 8), nowhere(50, 16), 0, x), Error);
  EXPECT_THROW(ops->cross_entropy_max(x, 17, rows), Error);
  EXPECT_THROW(ops->vocab_softmax(x, 17, rows, rows), Error);
  EXPECT_THROW(ops->vocab_combine(nowhere(6, 8, DType::fp32), nowhere(1, 8, DType::int32), 16, 2, rows),
               Error);
  EXPECT_THROW(ops->vocab_gradient(x, 16, 0, rows, rows, 1), Error);
  EXPECT_THROW(ops->vocab_input_gradient(x, x, 0, nowhere(1, 8, DType::int32), rows, 1), Error);
  EXPECT_THROW(ops->copy(x, other), Error);
  EXPECT_THROW(ops->add(mask, mask, {}, mask), Error);
  const Matrix x8 = nowhere(8, 16, DType::fp8_e4m3);
  const Matrix one = nowhere(1, 1, DType::fp32);
  EXPECT_THROW(ops->add(x8, x8, {}, x8), Error);
  EXPECT_THROW(ops->gemm({.a = x8, .b = x8, .c = nowhere(8, 8), .b_transposed = true}), Error);
  EXPECT_THROW(ops->fp8_amax(x8, one), Error);
  EXPECT_THROW(ops->fp8_scales(rows, 448, 0, one), Error);
  EXPECT_THROW(ops->fp8_quantize(x, one, {}, x8), Error);
  EXPECT_THROW(ops->fp8_transpose(x8, x8), Error);
  EXPECT_THROW(ops->fp8_quantize_transpose(rows, one, {}, {}, x8), Error);
  EXPECT_THROW(ops->gelu_forward(mask, mask), Error);
  EXPECT_THROW(ops->adam(x, nowhere(8, 16, DType::fp32), {}, x, x, {}), Error);
  EXPECT_THROW(ops->dropout_mask({0.1, 1, 1, 1, 0}, x), Error);
  EXPECT_THROW(ops->dropout_mask({1, 1, 1, 1, 0}, mask), Error);
  EXPECT_THROW(ops->dropout_add(x, {}, x, other, 0.1, x), Error);
  EXPECT_THROW(ops->dropout_add(x, {}, other, mask, 0.1, x), Error);
  EXPECT_THROW(ops->dropout_backward(x, x, 0.1, x), Error);
  EXPECT_THROW(ops->dropout_backward(x, mask, -1, x), Error);
  const AttentionShape shape{2, 4, 2, 1, 8};
  const Matrix k = nowhere(8, 8);
  const Matrix lse = nowhere(4, 4, DType::fp32);
  const Matrix scratch = nowhere(1, ops->attention_scratch(shape, DType::bf16), DType::fp32);
  EXPECT_NO_THROW(ops->attention_forward(shape, x, k, k, x, lse, scratch));
  EXPECT_THROW(ops->attention_forward(shape, x, x, k, x, lse, scratch), Error);
  EXPECT_THROW(ops->attention_forward(shape, x, k, k, x, lse, nowhere(1, scratch.cols - 1, DType::fp32)),
               Error);
  AttentionShape always = shape;
  always.dropout.probability = 1;
  EXPECT_THROW(ops->attention_forward(always, x, k, k, x, lse, scratch), Error);
  EXPECT_THROW(ops->attention_backward(always, x, k, k, x, lse, x, x, k, k, scratch), Error);
  AttentionShape negative = shape;
  negative.window = -1;
  EXPECT_THROW(ops->attention_forward(negative, x, k, k, x, lse, scratch), Error);
  EXPECT_THROW(ops->attention_backward(negative, x, k, k, x, lse, x, x, k, k, scratch), Error);
}

TEST(Emulated, WantsTheScratchOfTheCpu) {
  EmulatedClock clock(0);
  const auto emulated = make_emulated_operators(clock, {});
  const auto cpu = make_cpu_operators();
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 1, 1, 8}, AttentionShape{2, 127, 4, 2, 64}, AttentionShape{1, 128, 4, 4, 32},
        AttentionShape{3, 8192, 64, 8, 128}}) {
    for (const DType type : {DType::fp32, DType::bf16}) {
      EXPECT_EQ(emulated->attention_scratch(shape, type), cpu->attention_scratch(shape, type));
    }
  }
}

}  // namespace
}  // namespace plumbline::emulated_test
