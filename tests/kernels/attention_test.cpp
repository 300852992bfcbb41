// Causal grouped-query attention against a double reference that keeps the whole score matrix.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/attention_reference.hpp"

namespace plumbline::test {
namespace {

struct Case {
  AttentionShape shape;
  const char* why;
};

/// Rows lie `gap` elements, or a multiple, further apart than they are wide: with 8, at 16-byte boundaries.
void check(const Case& c, DType type, std::int64_t gap) {
  const AttentionShape& s = c.shape;
  const std::string what = fmt::format("{} {} gap {}", c.why, name_of(type), gap);
  const std::int64_t tokens = s.batch * s.seq;
  const std::int64_t q_cols = s.heads * s.head_dim;
  const std::int64_t kv_cols = s.kv_heads * s.head_dim;
  // q, k and v are slices of one wide matrix, as the fused projection leaves them.
  const Guarded qkv = random_matrix(tokens, q_cols + 2 * kv_cols, type, gap);
  const Matrix q = qkv.matrix().columns(0, q_cols);
  const Matrix k = qkv.matrix().columns(q_cols, kv_cols);
  const Matrix v = qkv.matrix().columns(q_cols + kv_cols, kv_cols);
  const Dense all = qkv.read();
  const auto slice = [&](const Dense& from, std::int64_t first, std::int64_t cols) {
    return dense(tokens, cols, [&](auto i, auto j) { return from(i, first + j); });
  };
  const Dense q_values = slice(all, 0, q_cols);
  const Dense k_values = slice(all, q_cols, kv_cols);
  const Dense v_values = slice(all, q_cols + kv_cols, kv_cols);
  const AttentionReference reference(s, q_values, k_values, v_values);
  Dense expected_lse;
  const Dense expected_out = reference.forward(&expected_lse).values;

  const Guarded scratch(1, operators().attention_scratch(s, type), DType::fp32);
  const Guarded out(tokens, q_cols, type, 2 * gap);
  const Guarded lse(s.batch * s.heads, s.seq, DType::fp32, 3);
  operators().attention_forward(s, q, k, v, out, lse, scratch);
  expect_close(out, expected_out, 2 * tolerance(type), what + " out");
  // A logarithm of exponentials is off by the error of its scores, which may cancel.
  const double score_terms = 1 + reference.largest_score_terms();
  expect_close(lse, expected_lse, tolerance(DType::fp32), what + " lse",
               dense(s.batch * s.heads, s.seq, [&](auto, auto) { return score_terms; }));
  EXPECT_EQ(normalised_error(qkv.read(), all), 0) << what << ": inputs changed";

  const Guarded dout = random_matrix(tokens, q_cols, type, gap);
  const Guarded dqkv = random_matrix(tokens, q_cols + 2 * kv_cols, type, 4 * gap);
  operators().attention_backward(s, q, k, v, out, lse, dout, dqkv.matrix().columns(0, q_cols),
                                 dqkv.matrix().columns(q_cols, kv_cols),
                                 dqkv.matrix().columns(q_cols + kv_cols, kv_cols), scratch);
  const AttentionGradients expected = reference.backward(dout.read());
  const Dense found = dqkv.read();
  // A 16-bit type rounds the probabilities, the score gradients and the stored output on the way: the terms
  // of the gradients, which may cancel.
  const double rounding = std::sqrt(tolerance(type) / tolerance(DType::fp32));
  const auto terms = [&](const Summed& sums) {
    return dense(tokens, sums.terms.cols, [&](auto i, auto j) { return rounding * sums.terms(i, j); });
  };
  const double bound = tolerance(type);
  // With one position the softmax is constant and its gradients are zero: bound the rest by the inputs.
  if (s.seq > 1) {
    expect_close(slice(found, 0, q_cols), expected.dq.values, bound, what + " dq", terms(expected.dq));
    expect_close(slice(found, q_cols, kv_cols), expected.dk.values, bound, what + " dk", terms(expected.dk));
  } else {
    for (std::int64_t j = 0; j < q_cols + kv_cols; ++j) expect_within(found(0, j), 0, 0.05, what);
  }
  expect_close(slice(found, q_cols + kv_cols, kv_cols), expected.dv.values, bound, what + " dv",
               terms(expected.dv));
  EXPECT_TRUE(dqkv.intact()) << what;
  EXPECT_TRUE(scratch.intact()) << what << ": wrote past the scratch";
}

constexpr AttentionShape with_slopes(AttentionShape shape, std::int64_t heads, std::int64_t first_head,
                                     double factor = 1) {
  shape.alibi = {heads, factor};
  shape.first_head = first_head;
  return shape;
}

constexpr AttentionShape with_prefix(AttentionShape shape, std::int64_t prefix) {
  shape.prefix = prefix;
  return shape;
}

constexpr Case kCases[] = {
    {{1, 1, 1, 1, 2}, "one position"},
    {{2, 7, 4, 2, 8}, "groups of two heads, two sequences"},
    {{1, 130, 2, 1, 16}, "two blocks, the second of two rows"},
    {{2, 128, 3, 3, 20}, "one full block, head size not a multiple of the lanes"},
    {{1, 300, 4, 2, 64}, "three blocks"},
    {{1, 33, 6, 1, 5}, "multi-query with odd sizes"},
    {{2, 65, 2, 1, 72}, "a head size between powers of two"},
    {{1, 97, 3, 1, 128}, "wide heads"},
    {{1, 1, 1, 1, 2, 1}, "one position, its own window"},
    {{2, 7, 4, 2, 8, 1}, "a window of the query's own key"},
    {{2, 7, 4, 2, 8, 3}, "a window of three keys"},
    {{2, 7, 4, 2, 8, 7}, "a window of the sequence"},
    {{2, 65, 2, 1, 72, 8}, "a head size between powers of two in a window"},
    {{1, 130, 2, 1, 16, 1000}, "a window larger than the sequence"},
    {{1, 130, 2, 1, 16, 129}, "a window that hides one key"},
    {{1, 300, 1, 1, 16, 3}, "three blocks, of each a few keys of the one before"},
    {{1, 300, 2, 1, 16, 64}, "a window of half a block"},
    {{1, 300, 2, 1, 64, 128}, "a window of a block"},
    {{1, 291, 3, 1, 20, 161}, "an odd window over blocks"},
    {{1, 97, 3, 1, 128, 33}, "wide heads in a window"},
    {with_slopes({2, 7, 4, 2, 8}, 4, 0), "slopes of four heads"},
    {with_slopes({1, 130, 3, 1, 16}, 6, 3, 0.25), "the last three of six heads, slopes scaled"},
    {with_slopes({1, 140, 2, 2, 64, 70}, 40, 38), "the last two of forty heads, in a window"},
    {with_prefix({2, 7, 4, 2, 8}, 1), "a prefix of one token"},
    {with_prefix({2, 7, 4, 2, 8}, 5), "a prefix that ends before the sequence"},
    {with_prefix({1, 33, 6, 1, 5}, 33), "a prefix of the whole sequence"},
    {with_prefix({1, 300, 2, 1, 64}, 140), "a prefix that ends in the second of three blocks"},
};

TEST(Attention, ForwardAndBackward) {
  for (const Case& c : kCases) {
    for (const DType type : element_types()) {
      for (const std::int64_t gap : {1, 8}) check(c, type, gap);
    }
  }
}

/// Definition of W, independent of the reference: the query at position i depends on keys and values at
/// positions j with i - W < j <= i, and on no others.
TEST(Attention, WindowsHoldTheKeysTheyShould) {
  constexpr std::int64_t kSeq = 150;
  for (const DType type : element_types()) {
    for (const std::int64_t window : {1, 3, 64, 149, 150, 4096}) {
      const AttentionShape s{1, kSeq, 1, 1, 8, window};
      const Guarded q = random_matrix(kSeq, 8, type);
      const Guarded k = random_matrix(kSeq, 8, type);
      Guarded v = random_matrix(kSeq, 8, type);
      const Guarded lse(1, kSeq, DType::fp32);
      const Guarded scratch(1, operators().attention_scratch(s, type), DType::fp32);
      const Guarded before(kSeq, 8, type);
      operators().attention_forward(s, q, k, v, before, lse, scratch);
      const std::int64_t j = random_integer(0, kSeq - 1);
      Dense changed = v.read();
      for (std::int64_t c = 0; c < 8; ++c) changed(j, c) += 1000;
      v.write(changed);
      const Guarded after(kSeq, 8, type);
      operators().attention_forward(s, q, k, v, after, lse, scratch);
      const Dense was = before.read();
      const Dense is = after.read();
      for (std::int64_t i = 0; i < kSeq; ++i) {
        EXPECT_EQ(is(i, 0) != was(i, 0), i - window < j && j <= i)
            << name_of(type) << " window " << window << " key " << j << " query " << i;
      }
    }
  }
}

/// Definition of a prefix, likewise: the query at position i depends on the keys j <= i and on those before
/// the prefix's end.
TEST(Attention, PrefixesAreSeenByAll) {
  constexpr std::int64_t kSeq = 150;
  for (const DType type : element_types()) {
    for (const std::int64_t prefix : {1, 64, 130, 150}) {
      const AttentionShape s = with_prefix({1, kSeq, 1, 1, 8}, prefix);
      const Guarded q = random_matrix(kSeq, 8, type);
      const Guarded k = random_matrix(kSeq, 8, type);
      Guarded v = random_matrix(kSeq, 8, type);
      const Guarded lse(1, kSeq, DType::fp32);
      const Guarded scratch(1, operators().attention_scratch(s, type), DType::fp32);
      const Guarded before(kSeq, 8, type);
      operators().attention_forward(s, q, k, v, before, lse, scratch);
      const std::int64_t j = random_integer(0, kSeq - 1);
      Dense changed = v.read();
      for (std::int64_t c = 0; c < 8; ++c) changed(j, c) += 1000;
      v.write(changed);
      const Guarded after(kSeq, 8, type);
      operators().attention_forward(s, q, k, v, after, lse, scratch);
      const Dense was = before.read();
      const Dense is = after.read();
      for (std::int64_t i = 0; i < kSeq; ++i) {
        EXPECT_EQ(is(i, 0) != was(i, 0), j <= i || j < prefix)
            << name_of(type) << " prefix " << prefix << " key " << j << " query " << i;
      }
    }
  }
}

TEST(Attention, WindowsThatHideNothingAreNone) {
  for (const DType type : element_types()) {
    const Guarded q = random_matrix(140, 32, type);
    const Guarded k = random_matrix(140, 16, type);
    std::vector<std::vector<std::uint8_t>> runs[3];
    const std::int64_t windows[] = {0, 140, std::int64_t{1} << 40};
    for (std::size_t i = 0; i < 3; ++i) {
      const AttentionShape s{1, 140, 2, 1, 16, windows[i]};
      const Guarded scratch(1, operators().attention_scratch(s, type), DType::fp32);
      const Guarded out(140, 32, type);
      const Guarded lse(2, 140, DType::fp32);
      const Guarded dq(140, 32, type);
      const Guarded dk(140, 16, type);
      const Guarded dv(140, 16, type);
      operators().attention_forward(s, q, k, k, out, lse, scratch);
      operators().attention_backward(s, q, k, k, out, lse, q, dq, dk, dv, scratch);
      runs[i] = {out.bytes(), lse.bytes(), dq.bytes(), dk.bytes(), dv.bytes()};
    }
    EXPECT_EQ(runs[0], runs[1]) << name_of(type);
    EXPECT_EQ(runs[0], runs[2]) << name_of(type);
  }
}

class AttentionReferences : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Windows, AttentionReferences, testing::Values(0, 1, 2, 9, -3));

/// A window, or with a minus a prefix.
TEST_P(AttentionReferences, GradientsAgreeWithDifferences) {
  AttentionShape s{1, 4, 2, 1, 3, std::max<std::int64_t>(GetParam(), 0)};
  s.prefix = std::max<std::int64_t>(-GetParam(), 0);
  const Dense q = random_matrix(4, 6, DType::fp32).read();
  const Dense k = random_matrix(4, 3, DType::fp32).read();
  const Dense v = random_matrix(4, 3, DType::fp32).read();
  const Dense dout = random_matrix(4, 6, DType::fp32).read();
  const AttentionGradients g = AttentionReference(s, q, k, v).backward(dout);
  Dense lse;
  const auto by_q = [&](const Dense& x) { return AttentionReference(s, x, k, v).forward(&lse).values; };
  const auto by_k = [&](const Dense& x) { return AttentionReference(s, q, x, v).forward(&lse).values; };
  const auto by_v = [&](const Dense& x) { return AttentionReference(s, q, k, x).forward(&lse).values; };
  expect_close(g.dq.values, numerical_gradient(by_q, q, dout), 1e-12, "dq");
  expect_close(g.dk.values, numerical_gradient(by_k, k, dout), 1e-12, "dk");
  expect_close(g.dv.values, numerical_gradient(by_v, v, dout), 1e-12, "dv");
}

TEST(Attention, SameBitsEveryTime) {
  const AttentionShape s{2, 150, 2, 1, 16};
  const Guarded q = random_matrix(300, 32, DType::bf16);
  const Guarded k = random_matrix(300, 16, DType::bf16);
  const Guarded v = random_matrix(300, 16, DType::bf16);
  std::vector<std::vector<std::uint8_t>> runs[2];
  for (auto& results : runs) {
    const Guarded scratch = random_matrix(1, operators().attention_scratch(s, DType::bf16), DType::fp32);
    const Guarded out(300, 32, DType::bf16);
    const Guarded lse(4, 150, DType::fp32);
    const Guarded dq(300, 32, DType::bf16);
    const Guarded dk(300, 16, DType::bf16);
    const Guarded dv(300, 16, DType::bf16);
    operators().attention_forward(s, q, k, v, out, lse, scratch);
    operators().attention_backward(s, q, k, v, out, lse, q, dq, dk, dv, scratch);
    results = {out.bytes(), lse.bytes(), dq.bytes(), dk.bytes(), dv.bytes()};
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 20, 1, 1, 16};
  const Guarded q = random_matrix(20, 16, DType::fp32, 0, 40);
  const Guarded k = random_matrix(20, 16, DType::fp32, 0, 40);
  const Guarded v = random_matrix(20, 16, DType::fp32);
  const Guarded out(20, 16, DType::fp32);
  const Guarded lse(1, 20, DType::fp32);
  const Guarded scratch(1, operators().attention_scratch(s, DType::fp32), DType::fp32);
  operators().attention_forward(s, q, k, v, out, lse, scratch);
  for (const double value : out.read().values) EXPECT_TRUE(std::isfinite(value));
  for (const double value : lse.read().values) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, BadShapesAndSmallScratchThrow) {
  const AttentionShape s{1, 8, 4, 2, 4};
  const Guarded q(8, 16, DType::fp32);
  const Guarded k(8, 8, DType::fp32);
  const Guarded lse(4, 8, DType::fp32);
  const Guarded small(1, operators().attention_scratch(s, DType::fp32) - 1, DType::fp32);
  EXPECT_THROW(operators().attention_forward(s, q, k, k, q, lse, small), Error);
  const Guarded scratch(1, operators().attention_scratch(s, DType::fp32), DType::fp32);
  EXPECT_THROW(operators().attention_forward(s, q, q, q, q, lse, scratch), Error);
  EXPECT_THROW(operators().attention_forward({1, 8, 4, 3, 4}, q, k, k, q, lse, scratch), Error);
  EXPECT_THROW(operators().attention_forward({1, 8, 4, 2, 4, -1}, q, k, k, q, lse, scratch), Error);
  EXPECT_THROW(operators().attention_forward(with_prefix(s, 9), q, k, k, q, lse, scratch), Error);
  EXPECT_THROW(operators().attention_forward(with_prefix({1, 8, 4, 2, 4, 3}, 2), q, k, k, q, lse, scratch),
               Error);
  EXPECT_THROW(operators().attention_forward(with_prefix(with_slopes(s, 4, 0), 2), q, k, k, q, lse, scratch),
               Error);
  EXPECT_THROW(operators().attention_backward({1, 8, 4, 2, 4, -1}, q, k, k, q, lse, q, q, k, k, scratch),
               Error);
}

}  // namespace
}  // namespace plumbline::test
