// Attention of a part of a sequence's queries against the keys in front of them: rows of attention over the
// whole sequence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Case {
  const char* name;
  std::int64_t window;
  double dropout;
  bool alibi;
  std::int64_t head_dim;
};
constexpr Case kCases[] = {
    {"plain", 0, 0, false, 8},     {"window", 70, 0, false, 72},
    {"dropout", 0, 0.3, false, 8}, {"window and dropout, odd heads", 41, 0.3, false, 20},
    {"slopes", 0, 0, true, 8},     {"window, dropout and slopes", 33, 0.2, true, 8}};

std::vector<std::pair<Case, DType>> cases() {
  std::vector<std::pair<Case, DType>> all;
  for (const Case& c : kCases) {
    for (const DType type : {DType::fp32, DType::bf16}) all.emplace_back(c, type);
  }
  return all;
}

double largest_difference(const Dense& a, const Dense& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  return largest;
}

TEST(ChunkedAttention, IsRowsOfTheWhole) {
  constexpr std::int64_t kSeq = 180;                             // blocks of 128 rows begin elsewhere
  constexpr std::int64_t kEnds[] = {45, 90, 91, 135, 136, 180};  // two of single queries
  for (const auto& [c, type] : cases()) {
    SCOPED_TRACE(fmt::format("{}, {}", c.name, name_of(type)));
    const std::int64_t query = 2 * c.head_dim;
    const std::int64_t key = c.head_dim;
    AttentionShape whole{1, kSeq, 2, 1, c.head_dim, c.window};
    whole.dropout = {c.dropout, 7, 3, 5, 900};
    if (c.alibi) whole.alibi = {8, 0.5};
    whole.first_head = 4;
    const Guarded q = random_matrix(kSeq, query, type);
    const Guarded kv = random_matrix(kSeq, 2 * key, type);
    const Guarded dout = random_matrix(kSeq, query, type);
    const auto keys = [&](const Matrix& both, std::int64_t count) {
      return both.row_range(0, count).columns(0, key);
    };
    const auto values = [&](const Matrix& both, std::int64_t count) {
      return both.row_range(0, count).columns(key, key);
    };
    struct Results {
      Results(std::int64_t cols, DType of) : out(kSeq, cols, of), dq(kSeq, cols, of) {}
      Guarded out, dq, lse{2, kSeq, DType::fp32};
    };
    const Results expected(query, type);
    const Results found(query, type);
    const Guarded scratch(1, operators().attention_scratch(whole, type), DType::fp32);
    const Guarded dkv(kSeq, 2 * key, type);
    operators().attention_forward(whole, q, keys(kv, kSeq), values(kv, kSeq), expected.out, expected.lse,
                                  scratch);
    operators().attention_backward(whole, q, keys(kv, kSeq), values(kv, kSeq), expected.out, expected.lse,
                                   dout, expected.dq, keys(dkv, kSeq), values(dkv, kSeq), scratch);
    Dense sum(kSeq, 2 * key);
    std::int64_t first = 0;
    for (const std::int64_t end : kEnds) {
      AttentionShape chunk = whole;
      chunk.past = first;
      chunk.seq = end - first;
      chunk.dropout.first_row += first;
      const auto rows = [&](const Matrix& x) { return x.row_range(first, chunk.seq); };
      const Guarded small(1, operators().attention_scratch(chunk, type), DType::fp32);
      const Matrix lse = found.lse.matrix().columns(first, chunk.seq);
      operators().attention_forward(chunk, rows(q), keys(kv, end), values(kv, end), rows(found.out), lse,
                                    small);
      const Guarded part(end, 2 * key, type);
      operators().attention_backward(chunk, rows(q), keys(kv, end), values(kv, end), rows(found.out), lse,
                                     rows(dout), rows(found.dq), keys(part, end), values(part, end), small);
      const Dense gradient = part.read();
      for (std::size_t i = 0; i < gradient.values.size(); ++i) sum.values[i] += gradient.values[i];
      EXPECT_TRUE(small.intact() && part.intact());
      first = end;
    }
    // 16-bit types round stored results, and the gradients of keys once for each part.
    const double rounding = type == DType::fp32 ? 1 : 5e3;
    EXPECT_LE(largest_difference(expected.out.read(), found.out.read()), 2e-6 * rounding);
    EXPECT_LE(largest_difference(expected.lse.read(), found.lse.read()), 2e-5);
    EXPECT_LE(largest_difference(expected.dq.read(), found.dq.read()), 1e-5 * rounding);
    EXPECT_LE(largest_difference(dkv.read(), sum), 5e-5 * rounding);
    EXPECT_TRUE(found.out.intact() && found.lse.intact() && found.dq.intact());
  }
}

/// Keys of a sequence in parts, with merged results; the gradients of the parts from the whole's log-sum-exp.
TEST(ChunkedAttention, PartsOfTheKeysArePutTogether) {
  constexpr std::int64_t kSeq = 150;  // queries, at 150 to 299
  constexpr std::int64_t kKeys[][2] = {
      {150, 300}, {0, 70}, {70, 131}, {131, 150}};  // first those that all see
  for (const auto& [c, type] : cases()) {
    SCOPED_TRACE(fmt::format("{}, {}", c.name, name_of(type)));
    const std::int64_t query = 2 * c.head_dim;
    const std::int64_t key = c.head_dim;
    AttentionShape whole{1, kSeq, 2, 1, c.head_dim, c.window};
    whole.past = kSeq;
    whole.dropout = {c.dropout, 7, 3, 5, 900};
    if (c.alibi) whole.alibi = {4, 0.5};
    const Guarded q = random_matrix(kSeq, query, type);
    const Guarded kv = random_matrix(2 * kSeq, 2 * key, type);
    const Guarded dout = random_matrix(kSeq, query, type);
    const Guarded scratch(1, operators().attention_scratch(whole, type), DType::fp32);
    struct Results {
      Results(std::int64_t cols, DType of) : out(kSeq, cols, of), dq(kSeq, cols, of) {}
      Guarded out, dq, lse{2, kSeq, DType::fp32, 3};
    };
    const Results expected(query, type);
    const Results found(query, type);
    const Results part(query, type);
    const Guarded dkv(2 * kSeq, 2 * key, type);
    const auto keys = [&](const Matrix& x) { return x.columns(0, key); };
    const auto values = [&](const Matrix& x) { return x.columns(key, key); };
    operators().attention_forward(whole, q, keys(kv), values(kv), expected.out, expected.lse, scratch);
    operators().attention_backward(whole, q, keys(kv), values(kv), expected.out, expected.lse, dout,
                                   expected.dq, keys(dkv), values(dkv), scratch);
    const Dense gradient = dkv.read();
    Dense dq_sum(kSeq, query);
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
      const Guarded dkv_part(end - first, 2 * key, type);
      operators().attention_backward(some, q, keys(seen), values(seen), expected.out, expected.lse, dout,
                                     part.dq, keys(dkv_part), values(dkv_part), small);
      EXPECT_TRUE(small.intact() && dkv_part.intact() && part.dq.intact() && to.out.intact() &&
                  to.lse.intact());
      const Dense more = part.dq.read();
      for (std::size_t i = 0; i < more.values.size(); ++i) dq_sum.values[i] += more.values[i];
      const Dense part_gradient = dkv_part.read();
      Dense same(end - first, 2 * key);
      for (std::int64_t i = 0; i < same.rows; ++i) {
        for (std::int64_t j = 0; j < same.cols; ++j) same(i, j) = gradient(first + i, j);
      }
      EXPECT_LE(largest_difference(part_gradient, same), type == DType::fp32 ? 2e-5 : 0.1) << first;
    }
    const double allowed = type == DType::fp32 ? 1e-5 : 0.05;
    EXPECT_LE(largest_difference(expected.out.read(), found.out.read()), allowed);
    EXPECT_LE(largest_difference(expected.lse.read(), found.lse.read()), 2e-5);
    EXPECT_LE(largest_difference(expected.dq.read(), dq_sum), allowed * 2);
  }
}

/// Two sequences in one call are two calls.
TEST(ChunkedAttention, SequencesOfABatchHaveTheirOwnKeys) {
  AttentionShape both{2, 37, 2, 1, 16};
  both.past = 50;
  both.key_start = 3;
  both.key_count = 61;
  both.dropout.probability = 0.2;
  for (const DType type : element_types()) {
    const Guarded q = random_matrix(2 * both.seq, 32, type);
    const Guarded kv = random_matrix(2 * both.key_count, 32, type);
    struct Results {
      explicit Results(const AttentionShape& s, DType type)
          : out(2 * s.seq, 32, type),
            dq(2 * s.seq, 32, type),
            dkv(2 * s.key_count, 32, type),
            lse(4, s.seq, DType::fp32) {}
      Guarded out, dq, dkv, lse;
    };
    const Results together(both, type);
    const Results alone(both, type);
    const Guarded scratch(1, operators().attention_scratch(both, type), DType::fp32);
    const auto run = [&](const AttentionShape& s, const Results& to, std::int64_t sequence) {
      const auto queries = [&](const Matrix& x) { return x.row_range(sequence * s.seq, s.batch * s.seq); };
      const auto keys = [&](const Matrix& x, std::int64_t first) {
        return x.row_range(sequence * s.key_count, s.batch * s.key_count).columns(first, 16);
      };
      const Matrix lse = to.lse.matrix().row_range(2 * sequence, 2 * s.batch);
      operators().attention_forward(s, queries(q), keys(kv, 0), keys(kv, 16), queries(to.out), lse, scratch);
      operators().attention_backward(s, queries(q), keys(kv, 0), keys(kv, 16), queries(to.out), lse,
                                     queries(q), queries(to.dq), keys(to.dkv, 0), keys(to.dkv, 16), scratch);
    };
    run(both, together, 0);
    for (const std::int64_t sequence : {0, 1}) {
      AttentionShape one = both;
      one.batch = 1;
      one.dropout.first_row += sequence * both.seq;
      run(one, alone, sequence);
    }
    EXPECT_EQ(together.out.read().values, alone.out.read().values);
    EXPECT_EQ(together.lse.read().values, alone.lse.read().values);
    EXPECT_EQ(together.dq.read().values, alone.dq.read().values);
    EXPECT_EQ(together.dkv.read().values, alone.dkv.read().values);
    EXPECT_TRUE(scratch.intact() && together.dkv.intact());
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
