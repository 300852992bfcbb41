// Attention of a part of a sequence's queries against the keys in front of them: rows of attention over the whole sequence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Case {
  const char* name;
  std::int64_t window;
  double dropout;
  bool alibi;
};
constexpr Case kCases[] = {{"plain", 0, 0, false},
                           {"window", 70, 0, false},
                           {"dropout", 0, 0.3, false},
                           {"slopes", 0, 0, true},
                           {"window, dropout and slopes", 33, 0.2, true}};

double largest_difference(const Dense& a, const Dense& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  return largest;
}

TEST(ChunkedAttention, IsRowsOfTheWhole) {
  constexpr std::int64_t kSeq = 300;  // blocks of 128 rows begin elsewhere
  constexpr std::int64_t kEnds[] = {75, 150, 225, 300};
  constexpr std::int64_t kQuery = 4 * 8;
  constexpr std::int64_t kKey = 2 * 8;
  for (const Case& c : kCases) {
    AttentionShape whole{1, kSeq, 4, 2, 8, c.window};
    whole.dropout = {c.dropout, 7, 3, 5, 900};
    if (c.alibi) whole.alibi = {8, 0.5};
    whole.first_head = 4;
    const Guarded q = random_matrix(kSeq, kQuery, DType::fp32);
    const Guarded kv = random_matrix(kSeq, 2 * kKey, DType::fp32);
    const Guarded dout = random_matrix(kSeq, kQuery, DType::fp32);
    const auto keys = [&](const Matrix& both, std::int64_t count) {
      return both.row_range(0, count).columns(0, kKey);
    };
    const auto values = [&](const Matrix& both, std::int64_t count) {
      return both.row_range(0, count).columns(kKey, kKey);
    };
    struct Results {
      Guarded out{kSeq, kQuery, DType::fp32}, lse{4, kSeq, DType::fp32}, dq{kSeq, kQuery, DType::fp32};
    };
    const Results expected;
    const Results found;
    const Guarded scratch(1, operators().attention_scratch(whole, DType::fp32), DType::fp32);
    const Guarded dkv(kSeq, 2 * kKey, DType::fp32);
    operators().attention_forward(whole, q, keys(kv, kSeq), values(kv, kSeq), expected.out, expected.lse,
                                  scratch);
    operators().attention_backward(whole, q, keys(kv, kSeq), values(kv, kSeq), expected.out, expected.lse,
                                   dout, expected.dq, keys(dkv, kSeq), values(dkv, kSeq), scratch);
    Dense sum(kSeq, 2 * kKey);
    std::int64_t first = 0;
    for (const std::int64_t end : kEnds) {
      AttentionShape chunk = whole;
      chunk.past = first;
      chunk.seq = end - first;
      chunk.dropout.first_row += first;
      const auto rows = [&](const Matrix& x) { return x.row_range(first, chunk.seq); };
      const Guarded small(1, operators().attention_scratch(chunk, DType::fp32), DType::fp32);
      const Matrix lse = found.lse.matrix().columns(first, chunk.seq);
      operators().attention_forward(chunk, rows(q), keys(kv, end), values(kv, end), rows(found.out), lse,
                                    small);
      const Guarded part(end, 2 * kKey, DType::fp32);
      operators().attention_backward(chunk, rows(q), keys(kv, end), values(kv, end), rows(found.out), lse,
                                     rows(dout), rows(found.dq), keys(part, end), values(part, end), small);
      const Dense gradient = part.read();
      for (std::size_t i = 0; i < gradient.values.size(); ++i) sum.values[i] += gradient.values[i];
      EXPECT_TRUE(small.intact()) << c.name;
      first = end;
    }
    EXPECT_LE(largest_difference(expected.out.read(), found.out.read()), 2e-6) << c.name;
    EXPECT_LE(largest_difference(expected.lse.read(), found.lse.read()), 2e-5) << c.name;
    EXPECT_LE(largest_difference(expected.dq.read(), found.dq.read()), 1e-5) << c.name;
    EXPECT_LE(largest_difference(dkv.read(), sum), 5e-5) << c.name;
    EXPECT_TRUE(found.out.intact() && found.lse.intact() && found.dq.intact()) << c.name;
  }
}

/// Keys of a sequence in parts, results put together; the gradients of the parts from the whole's log-sum-exp.
TEST(ChunkedAttention, PartsOfTheKeysArePutTogether) {
  constexpr std::int64_t kSeq = 150;  // queries, at 150 to 299
  constexpr std::int64_t kKeys[][2] = {
      {150, 300}, {0, 70}, {70, 131}, {131, 150}};  // first those that all see
  for (const Case& c : kCases) {
    for (const DType type : element_types()) {
      SCOPED_TRACE(fmt::format("{}, {}", c.name, name_of(type)));
      AttentionShape whole{1, kSeq, 4, 2, 8, c.window};
      whole.past = kSeq;
      whole.dropout = {c.dropout, 7, 3, 5, 900};
      if (c.alibi) whole.alibi = {4, 0.5};
      const Guarded q = random_matrix(kSeq, 32, type);
      const Guarded kv = random_matrix(2 * kSeq, 32, type);
      const Guarded dout = random_matrix(kSeq, 32, type);
      const Guarded scratch(1, operators().attention_scratch(whole, type), DType::fp32);
      struct Results {
        explicit Results(DType type) : out(kSeq, 32, type), dq(kSeq, 32, type) {}
        Guarded out, dq, lse{4, kSeq, DType::fp32};
      };
      const Results expected(type);
      const Results found(type);
      const Results part(type);
      const Guarded dkv(2 * kSeq, 32, type);
      const auto keys = [](const Matrix& x) { return x.columns(0, 16); };
      const auto values = [](const Matrix& x) { return x.columns(16, 16); };
      operators().attention_forward(whole, q, keys(kv), values(kv), expected.out, expected.lse, scratch);
      operators().attention_backward(whole, q, keys(kv), values(kv), expected.out, expected.lse, dout,
                                     expected.dq, keys(dkv), values(dkv), scratch);
      const Dense gradient = dkv.read();
      Dense dq_sum(kSeq, 32);
      for (const auto& [first, end] : kKeys) {
        AttentionShape some = whole;
        some.key_start = first;
        some.key_count = end - first;
        const Guarded small(1, operators().attention_scratch(some, type), DType::fp32);
        const Matrix seen = kv.matrix().row_range(first, end - first);
        const bool opens = first == kSeq;
        const Results& to = opens ? found : part;
        operators().attention_forward(some, q, keys(seen), values(seen), to.out, to.lse, small);
        if (!opens) operators().attention_merge(found.out, found.lse, part.out, part.lse);
        const Guarded dkv_part(end - first, 32, type);
        operators().attention_backward(some, q, keys(seen), values(seen), expected.out, expected.lse, dout,
                                       part.dq, keys(dkv_part), values(dkv_part), small);
        EXPECT_TRUE(small.intact());
        const Dense more = part.dq.read();
        for (std::size_t i = 0; i < more.values.size(); ++i) dq_sum.values[i] += more.values[i];
        const Dense part_gradient = dkv_part.read();
        Dense same(end - first, 32);
        for (std::int64_t i = 0; i < same.rows; ++i) {
          for (std::int64_t j = 0; j < 32; ++j) same(i, j) = gradient(first + i, j);
        }
        EXPECT_LE(largest_difference(part_gradient, same), type == DType::fp32 ? 2e-5 : 0.1) << first;
      }
      const double allowed = type == DType::fp32 ? 1e-5 : 0.05;
      EXPECT_LE(largest_difference(expected.out.read(), found.out.read()), allowed);
      EXPECT_LE(largest_difference(expected.lse.read(), found.lse.read()), 2e-5);
      EXPECT_LE(largest_difference(expected.dq.read(), dq_sum), allowed * 2);
    }
  }
}

/// All keys before the window.
TEST(ChunkedAttention, QueriesWithoutKeysAddNothing) {
  AttentionShape shape{1, 20, 2, 1, 8, 5};
  shape.past = 40;
  shape.key_count = 30;
  const Guarded q = random_matrix(20, 16, DType::fp32);
  const Guarded kv = random_matrix(30, 16, DType::fp32);
  const Guarded out(20, 16, DType::fp32), dq(20, 16, DType::fp32), lse(2, 20, DType::fp32),
      dkv(30, 16, DType::fp32);
  const Guarded scratch(1, operators().attention_scratch(shape, DType::fp32), DType::fp32);
  const auto keys = [](const Matrix& x) { return x.columns(0, 8); };
  const auto values = [](const Matrix& x) { return x.columns(8, 8); };
  operators().attention_forward(shape, q, keys(kv), values(kv), out, lse, scratch);
  operators().attention_backward(shape, q, keys(kv), values(kv), out, lse, q, dq, keys(dkv), values(dkv),
                                 scratch);
  for (const double x : out.read().values) EXPECT_EQ(x, 0);
  for (const double x : dq.read().values) EXPECT_EQ(x, 0);
  for (const double x : dkv.read().values) EXPECT_EQ(x, 0);
  for (const double x : lse.read().values) EXPECT_EQ(x, -INFINITY);
  const Guarded whole = random_matrix(20, 16, DType::fp32);
  const Guarded whole_lse = random_matrix(2, 20, DType::fp32);
  const Dense before = whole.read();
  operators().attention_merge(whole, whole_lse, out, lse);
  EXPECT_EQ(whole.read().values, before.values);
  shape.prefix = 3;
  EXPECT_THROW(operators().attention_forward(shape, q, keys(kv), values(kv), out, lse, scratch), Error);
  shape.prefix = 0;
  shape.key_start = 31;  // the last key is later than the last query
  EXPECT_THROW(operators().attention_forward(shape, q, keys(kv), values(kv), out, lse, scratch), Error);
}

}  // namespace
}  // namespace plumbline::test
