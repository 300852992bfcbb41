// On a GPU: every operator at sizes of a real layer, where grids have many blocks and loops more than one
// round, against the CPU operator; twice, for the same bits; and the arena over device memory.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "tests/kernels/cuda/layer_sizes.hpp"

namespace plumbline::test {
namespace {

struct Outcome {
  std::vector<Guarded> operands;
  double number = 0;
};

Outcome outcome(const Call& c, Operators& op) {
  Outcome result;
  Operands views;
  for (const Guarded& operand : c.operands) {
    const Matrix& x = operand.matrix();
    result.operands.emplace_back(x.rows, x.cols, x.dtype, x.stride - x.cols);
    result.operands.back().write(operand.read());
    views.push_back(result.operands.back());
  }
  result.number = c.run(op, views).value();  // staged operators have waited
  return result;
}

}  // namespace

void compare(const Call& c, DType type) {
  static const std::unique_ptr<Operators> cpu = make_cpu_operators();
  const std::string what = fmt::format("{} {}", c.name, name_of(type));
  const Outcome expected = outcome(c, *cpu);
  const Outcome found = outcome(c, operators());
  const Outcome again = outcome(c, operators());
  // Both sides round to the storage type, some on the way, too; in fp32 only the order of sums differs.
  const double bound = type == DType::fp32 ? 1e-9 : 2e-4;
  EXPECT_NEAR(found.number, expected.number, 1e-5 * std::abs(expected.number) + 1e-6) << what;
  EXPECT_EQ(found.number, again.number) << what;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    expect_close(found.operands[i], expected.operands[i].read(), bound,
                 fmt::format("{} operand {}", what, i));
    EXPECT_EQ(found.operands[i].bytes(), again.operands[i].bytes()) << what << " operand " << i << " twice";
  }
}

namespace {

Guarded tokens(std::int64_t count, std::int64_t vocabulary) {
  Guarded ids(1, count, DType::int32);
  // Half of them from a few ids: long groups of equal tokens.
  ids.write(dense(1, count, [&](auto, auto) {
    return static_cast<double>(random_integer(0, random_integer(0, 1) == 0 ? 3 : vocabulary - 1));
  }));
  return ids;
}

void check_rows(DType type, std::int64_t h) {
  constexpr std::int64_t kRows = 1337;
  const auto x = [&] { return random_matrix(kRows, h, type); };
  const auto row = [&](DType t) { return random_matrix(1, h, t); };
  const auto statistic = [&] { return random_matrix(1, kRows, DType::fp32); };
  Call rms = call("rmsnorm", [](Operators& op, const Operands& m) {
    op.rmsnorm_forward(m[0], m[1], m[2], m[3], 1e-6);
    op.rmsnorm_backward(m[2], m[0], m[1], m[3], m[4], m[4], m[5]);
    return 0.0;
  });
  rms.operands.push_back(x());
  rms.operands.push_back(row(type));
  rms.operands.push_back(x());
  rms.operands.push_back(statistic());
  rms.operands.push_back(x());
  rms.operands.push_back(row(DType::fp32));
  compare(rms, type);
  Call layer = call("layernorm", [](Operators& op, const Operands& m) {
    op.layernorm_forward(m[0], m[1], m[1], m[2], m[3], m[4], 1e-5);
    op.layernorm_backward(m[2], m[0], m[1], m[3], m[4], {}, m[5], m[6], m[7]);
    return 0.0;
  });
  layer.operands.push_back(x());
  layer.operands.push_back(row(type));
  layer.operands.push_back(x());
  layer.operands.push_back(statistic());
  layer.operands.push_back(statistic());
  layer.operands.push_back(x());
  layer.operands.push_back(row(DType::fp32));
  layer.operands.push_back(row(DType::fp32));
  compare(layer, type);
  Call joined = call("norms of sums", [](Operators& op, const Operands& m) {
    op.add_rmsnorm_forward({m[0], m[1], 1, m[2], m[0]}, m[3], m[4], m[5], 1e-6);
    op.add_layernorm_forward({m[0], m[1], 0.5, {}, m[1]}, m[3], m[2], m[6], m[7], m[8], 1e-5);
    return 0.0;
  });
  joined.operands.push_back(x());
  joined.operands.push_back(x());
  joined.operands.push_back(row(type));
  joined.operands.push_back(row(type));
  joined.operands.push_back(x());
  joined.operands.push_back(statistic());
  joined.operands.push_back(x());
  joined.operands.push_back(statistic());
  joined.operands.push_back(statistic());
  compare(joined, type);
  Call sums = call("sums", [](Operators& op, const Operands& m) {
    op.add(m[0], m[1], m[2], m[1]);
    op.bias_backward(m[1], m[3]);
    op.scale(m[1], 0.5);
    op.copy(m[1], m[4]);
    return op.squared_norm(m[4]);
  });
  sums.operands.push_back(x());
  sums.operands.push_back(x());
  sums.operands.push_back(row(type));
  sums.operands.push_back(row(DType::fp32));
  sums.operands.push_back(random_matrix(kRows, h, DType::fp32, 3));
  compare(sums, type);
  Call activations = call("activations", [h](Operators& op, const Operands& m) {
    op.swiglu_forward(m[0], m[1]);
    op.swiglu_backward(m[1], m[0], m[2]);
    op.gelu_forward(m[1], m[3]);
    op.gelu_backward(m[3], m[1], m[3]);
    return 0.0 * static_cast<double>(h);
  });
  activations.operands.push_back(random_matrix(kRows, 2 * h, type));
  activations.operands.push_back(x());
  activations.operands.push_back(random_matrix(kRows, 2 * h, type));
  activations.operands.push_back(x());
  compare(activations, type);
  Call dropout = call("dropout", [](Operators& op, const Operands& m) {
    op.dropout_mask({0.1, 1234, 5, 7, std::int64_t{1} << 33}, m[2]);
    op.dropout_add(m[0], m[1], m[0], m[2], 0.1, m[3]);
    op.dropout_add(m[0], {}, m[3], m[2], 0.1, m[3]);
    op.dropout_backward(m[3], m[2], 0.1, m[0]);
    return 0.0;
  });
  dropout.operands.push_back(x());
  dropout.operands.push_back(row(type));
  dropout.operands.push_back(Guarded(kRows, h, DType::uint8));
  dropout.operands.push_back(x());
  compare(dropout, type);
  Call embedding = call("embedding", [](Operators& op, const Operands& m) {
    op.embedding_forward(m[0], m[1], 100, m[2]);
    op.embedding_backward(m[0], m[2], 100, m[3]);
    op.embedding_backward(m[0], m[2], 0, m[3]);
    op.position_forward(m[2], m[1], 191);
    op.position_backward(m[2], m[3], 191);
    return 0.0;
  });
  embedding.operands.push_back(tokens(kRows, 1000));
  embedding.operands.push_back(random_matrix(700, h, type));
  embedding.operands.push_back(x());
  embedding.operands.push_back(random_matrix(700, h, DType::fp32));
  compare(embedding, type);
}

void check_loss(DType type, std::int64_t columns, std::int64_t valid) {
  constexpr std::int64_t kRows = 300;
  Call loss = call("cross-entropy", [valid](Operators& op, const Operands& m) {
    op.cross_entropy_max(m[0], valid, m[2]);
    op.cross_entropy_sums(m[0], valid, 0, m[1], m[2], m[3]);
    return op.cross_entropy_gradient(m[0], valid, 0, m[1], m[2], m[3], 0.125);
  });
  loss.operands.push_back(random_matrix(kRows, columns, type));
  loss.operands.push_back(tokens(kRows, valid));
  loss.operands.push_back(random_matrix(1, kRows, DType::fp32));
  loss.operands.push_back(random_matrix(2, kRows, DType::fp32));
  compare(loss, type);
}

void check_policy_loss(DType type, std::int64_t columns, std::int64_t valid) {
  constexpr std::int64_t kRows = 300;
  Call policy = call("policy loss", [valid](Operators& op, const Operands& m) {
    op.cross_entropy_max(m[0], valid, m[2]);
    op.cross_entropy_sums(m[0], valid, 0, m[1], m[2], m[3]);
    op.entropy_sums(m[0], valid, m[2], m[4]);
    const Number loss =
        op.policy_loss(m[1], m[3], m[4], m[5], {.kl_coef = 0.01, .entropy_coef = 0.02}, 0.125, m[6]);
    op.policy_gradient(m[0], valid, 0, m[1], m[2], m[6]);
    return loss;
  });
  policy.operands.push_back(random_matrix(kRows, columns, type));
  policy.operands.push_back(tokens(kRows, valid));
  policy.operands.push_back(random_matrix(1, kRows, DType::fp32));
  policy.operands.push_back(random_matrix(2, kRows, DType::fp32));
  policy.operands.push_back(random_matrix(1, kRows, DType::fp32));
  Guarded drawn(4, kRows, DType::fp32);  // with log-probabilities near those of equally likely tokens
  const Dense noise = random_matrix(4, kRows, DType::fp32).read();
  drawn.write(dense(4, kRows, [&](auto i, auto t) {
    return i < 2 ? noise(i, t) - std::log(static_cast<double>(valid)) : noise(i, t);
  }));
  policy.operands.push_back(std::move(drawn));
  policy.operands.push_back(random_matrix(3, kRows, DType::fp32));
  compare(policy, type);
}

void check_value_loss(DType type) {
  constexpr std::int64_t kRows = 1301;
  Call values = call("value loss", [](Operators& op, const Operands& m) {
    return op.value_loss(m[0], m[1], m[2], 0.3, 0.125, m[3]);
  });
  values.operands.push_back(tokens(kRows, 100));
  values.operands.push_back(random_matrix(1, kRows, DType::fp32));
  values.operands.push_back(random_matrix(4, kRows, DType::fp32));
  values.operands.push_back(random_matrix(kRows, 1, type));
  compare(values, type);
}

/// Without dropout, or with it: the same draws on both sides.
void check_attention(DType type, AttentionShape s, double probability) {
  s.dropout = {probability, 1234, 5, 6, 999};
  s.first_head = 3;
  const std::int64_t q_cols = s.heads * s.head_dim;
  const std::int64_t kv_cols = s.kv_heads * s.head_dim;
  const std::int64_t rows = s.batch * s.seq;
  Call attention = call("attention", [=](Operators& op, const Operands& m) {
    const auto part = [=](const Matrix& x, int i) {
      return i == 0 ? x.columns(0, q_cols) : x.columns(q_cols + (i - 1) * kv_cols, kv_cols);
    };
    const Guarded scratch(1, op.attention_scratch(s, type), DType::fp32);
    op.attention_forward(s, part(m[0], 0), part(m[0], 1), part(m[0], 2), m[1], m[2], scratch);
    op.attention_backward(s, part(m[0], 0), part(m[0], 1), part(m[0], 2), m[1], m[2], m[3], part(m[4], 0),
                          part(m[4], 1), part(m[4], 2), scratch);
    return 0.0;
  });
  attention.operands.push_back(random_matrix(rows, q_cols + 2 * kv_cols, type));
  attention.operands.push_back(random_matrix(rows, q_cols, type));
  attention.operands.push_back(random_matrix(s.batch * s.heads, s.seq, DType::fp32));
  attention.operands.push_back(random_matrix(rows, q_cols, type));
  attention.operands.push_back(random_matrix(rows, q_cols + 2 * kv_cols, type));
  compare(attention, type);
}

TEST(LayerSizes, RowOperatorsAgreeWithTheCpu) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (const std::int64_t h : {896, 1001, 2304}) check_rows(type, h);
  }
}

TEST(LayerSizes, CrossEntropyAgreesWithTheCpu) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    check_loss(type, 16384, 16384);
    check_loss(type, 5003, 5000);
    check_policy_loss(type, 5003, 5000);
    check_value_loss(type);
  }
}

TEST(LayerSizes, AttentionAgreesWithTheCpu) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (const double probability : {0.0, 0.1}) {
      check_attention(type, {2, 333, 6, 2, 64}, probability);
      check_attention(type, {1, 1024, 4, 2, 128}, probability);
      check_attention(type, {1, 257, 2, 1, 40}, probability);
      check_attention(type, {1, 130, 2, 2, 160}, probability);
      check_attention(type, {2, 333, 6, 2, 64, 100}, probability);
      check_attention(type, {1, 1024, 4, 2, 128, 3}, probability);
      check_attention(type, {1, 257, 2, 1, 40, 256}, probability);
    }
  }
}

TEST(LayerSizes, ProductsAgreeWithTheCpu) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    Call products = call("linear", [](Operators& op, const Operands& m) {
      op.gemm({.a = m[0], .b = m[1], .c = m[2], .b_transposed = true, .bias = m[5]});
      op.gemm({.a = m[2], .b = m[1], .c = m[3], .bias = {}});
      op.gemm(
          {.a = m[2], .b = m[0], .c = m[4], .a_transposed = true, .accumulate = true, .bias_gradient = m[6]});
      return 0.0;
    });
    products.operands.push_back(random_matrix(777, 896, type));
    products.operands.push_back(random_matrix(1152, 896, type));
    products.operands.push_back(random_matrix(777, 1152, type));
    products.operands.push_back(random_matrix(777, 896, type));
    products.operands.push_back(random_matrix(1152, 896, DType::fp32));
    products.operands.push_back(random_matrix(1, 1152, type));
    products.operands.push_back(random_matrix(1, 1152, DType::fp32));
    compare(products, type);
  }
}

TEST(DeviceMemory, ArenaKeepsItsBudgetAndSaysWhenTheDeviceIsFull) {
  const std::unique_ptr<Operators> op = make_cuda_operators();
  Arena arena(Bytes{1 << 20}, device_memory(*op));
  Tensor tensor = arena.allocate(Category::activations, "held", 256, 512, DType::fp32);
  op->fill(tensor, 1.5);
  const Number norm = op->squared_norm(tensor);
  op->synchronize();
  EXPECT_EQ(norm.value(), 256 * 512 * 2.25);
  EXPECT_THROW(arena.allocate(Category::activations, "one more", 1024, 1024, DType::fp32), OutOfMemory);
  Arena boundless({}, device_memory(*op));
  EXPECT_THROW(boundless.allocate(Category::logits, "too much", std::int64_t{1} << 40, 1024, DType::fp32),
               OutOfMemory);
  op->fill(tensor, 2);  // the failure left nothing behind
  const Number after = op->squared_norm(tensor);
  op->synchronize();
  EXPECT_EQ(after.value(), 256 * 512 * 4.0);
}

}  // namespace
}  // namespace plumbline::test
