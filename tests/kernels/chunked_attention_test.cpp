// Attention of a part of a sequence's queries against the keys in front of them: rows of attention over the whole sequence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

}  // namespace
}  // namespace plumbline::test
