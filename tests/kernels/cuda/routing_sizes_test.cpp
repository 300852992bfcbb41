// Routing at sizes of a real layer, where choices fill many blocks and experts more than a warp: the same
// numbers as the CPU's. On a GPU and on the host.
#include <fmt/format.h>

#include <cmath>

#include "kernels/cpu/cpu_operators.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Case {
  std::int64_t tokens, experts, top_k;
  std::int64_t groups = 1, chosen_groups = 1;
  bool sigmoid = false, normalized = true;
  std::int64_t capacity = 0;
  bool by_position = false, padded = false;
  std::int64_t multiple = 1;
};
constexpr Case kCases[] = {
    {700, 8, 2},
    {130, 300, 8},
    {700, 64, 6, 1, 1, false, false},
    {257, 256, 8, 8, 4, true},
    {300, 48, 4, 6, 2, false, true},
    {700, 9, 3, 1, 1, false, true, 200},
    {700, 9, 3, 1, 1, true, false, 150, false, true},
    {400, 40, 6, 1, 1, false, false, 50, true},
    {400, 40, 6, 1, 1, false, true, 65, true, true},
    {700, 64, 6, 1, 1, false, true, 0, false, false, 16},
    {400, 40, 6, 1, 1, false, true, 65, false, false, 16},
    {400, 40, 6, 1, 1, false, true, 65, false, true, 16},
    {1, 3, 1},
};

/// Results of the operators for the same logits.
struct Outcome {
  Outcome(Operators& op, Router router, const Guarded& logits, const Guarded& bias)
      : chosen(1, logits.matrix().rows * router.top_k, DType::int32),
        places(1, chosen.matrix().cols, DType::int32),
        counts(static_cast<std::size_t>(logits.matrix().cols)),
        rows(route(op, router, logits, bias)),
        tokens(1, rows, DType::int32),
        weights(1, rows, DType::fp32),
        by_row(logits.matrix().rows, logits.matrix().cols, DType::bf16),
        by_choice(logits.matrix().rows, logits.matrix().cols, DType::fp32) {
    if (router.sigmoid) router.bias = bias;
    op.arrange(router, logits, chosen, places, tokens, weights);
    router.z = 0.01;
    op.route_backward(router, logits, chosen, places, weights, by_row);
    router.balance = 0.001;
    const Guarded numbers(1, chosen.matrix().cols, DType::fp32);
    numbers_of(numbers.matrix());
    op.route_backward(router, logits, chosen, {}, numbers, by_choice);
  }
  std::int64_t route(Operators& op, Router router, const Guarded& logits, const Guarded& bias) {
    if (router.sigmoid) router.bias = bias;
    op.route(router, logits, chosen, counts.data());
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += router.rows_of(count);
    return sum;
  }
  static void numbers_of(const Matrix& x) {
    for (std::int64_t i = 0; i < x.cols; ++i) x.as<float>()[i] = static_cast<float>(i % 7) - 3;
  }
  Guarded chosen, places;
  std::vector<std::int64_t> counts;
  std::int64_t rows;
  Guarded tokens, weights, by_row, by_choice;
};

TEST(RoutingSizes, AreWhatTheCpuMakesOfThem) {
  const std::unique_ptr<Operators> cpu = make_cpu_operators();
  for (const Case& c : kCases) {
    SCOPED_TRACE(
        fmt::format("{} tokens, {} experts, top {}, capacity {}", c.tokens, c.experts, c.top_k, c.capacity));
    Router router;
    router.top_k = c.top_k;
    router.groups = c.groups;
    router.chosen_groups = c.chosen_groups;
    router.sigmoid = c.sigmoid;
    router.normalized = c.normalized;
    router.capacity = c.capacity;
    router.by_position = c.by_position;
    router.padded = c.padded;
    router.multiple = c.multiple;
    Guarded logits = random_matrix(c.tokens, c.experts, DType::fp32, 1, 2);
    // Many equal ones, but where weights decide, which are then equal to the last bit or differ by it.
    if (c.capacity == 0 || c.by_position) {
      const Dense exact = logits.read();
      logits.write(
          dense(c.tokens, c.experts, [&](auto t, auto i) { return std::nearbyint(8 * exact(t, i)) / 8; }));
    }
    const Guarded bias = random_matrix(1, c.experts, DType::fp32);
    const Outcome expected(*cpu, router, logits, bias);
    const Outcome found(operators(), router, logits, bias);
    EXPECT_EQ(found.counts, expected.counts);
    EXPECT_EQ(found.chosen.bytes(), expected.chosen.bytes());
    EXPECT_EQ(found.places.bytes(), expected.places.bytes());
    EXPECT_EQ(found.tokens.bytes(), expected.tokens.bytes());
    EXPECT_TRUE(found.chosen.intact() && found.places.intact() && found.tokens.intact());
    expect_close(found.weights, expected.weights.read(), tolerance(DType::fp32), "weights");
    expect_close(found.by_row, expected.by_row.read(), tolerance(DType::bf16), "gradient from rows");
    expect_close(found.by_choice, expected.by_choice.read(), 1e-9, "gradient from choices");
    const Outcome again(operators(), router, logits, bias);
    EXPECT_EQ(found.weights.bytes(), again.weights.bytes());
    EXPECT_EQ(found.by_choice.bytes(), again.by_choice.bytes());
  }
}

}  // namespace
}  // namespace plumbline::test
