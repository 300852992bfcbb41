// Attention that drops probabilities against a double reference, entry by entry.
//
// The bounds are worst cases of rounding, so that no random numbers can fail them. With unit roundoffs u of
// fp32 and r of the storage type, d the head size, n the keys of a row and S the largest Σ|q|·|k|/sqrt(d):
//   a score, its maximum and its log-sum-exp are off by at most (d + 8)·u·S each, so a probability by three
//   times that of itself, and by one r where it is stored;
//   sums over n keys or d columns, and their factors add (n + d + 64)·u of their terms' sizes,
//   twice where a sum goes into a sum;
//   the stored output, score gradients and the result add one r each of at most their terms.
// Every entry is thus within E = 5·r + 3·(d + 8)·u·S + 2·(n + d + 64)·u of its terms' sum. Unfused attention,
// here with dropout and without, also stores scores, dropped probabilities and their gradients, and may round
// the sum of a group's gradients once per head: 3·r·S + (3 + heads)·r more.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "tests/kernels/attention_reference.hpp"
#include "tests/kernels/philox_reference.hpp"

namespace plumbline::test {
namespace {

double unit_roundoff(DType type) {
  return std::ldexp(1, type == DType::fp32 ? -24 : type == DType::bf16 ? -8 : -11);
}

void expect_rounded(const Dense& found, const Summed& expected, double bound, const std::string& what) {
  ASSERT_EQ(found.values.size(), expected.values.values.size()) << what;
  for (std::int64_t i = 0; i < found.rows; ++i) {
    for (std::int64_t j = 0; j < found.cols; ++j) {
      ASSERT_LE(std::fabs(found(i, j) - expected.values(i, j)), bound * expected.terms(i, j))
          << what << " at " << i << ", " << j;
    }
  }
}

/// Operands and results of one attention; q, k, v and their gradients are slices of one matrix each.
struct Attention {
  Attention(const AttentionShape& shape_, DType type, std::int64_t gap, bool unfused_ = false)
      : shape(shape_),
        unfused(unfused_),
        query(shape.heads * shape.head_dim),
        key(shape.kv_heads * shape.head_dim),
        qkv(random_matrix(shape.batch * shape.seq, query + 2 * key, type, gap)),
        dqkv(random_matrix(shape.batch * shape.seq, query + 2 * key, type, 4 * gap)),
        dout(random_matrix(shape.batch * shape.seq, query, type, gap)),
        out(shape.batch * shape.seq, query, type, 2 * gap),
        lse(shape.batch * shape.heads, shape.seq, DType::fp32, 3),
        scratch(1, operators().attention_scratch(shape, type), DType::fp32),
        scores(square(type)),
        probabilities(square(type)),
        mask(square(DType::uint8)),
        dropped(square(type)),
        repeated(shape.batch * shape.seq, 2 * (query - key), type, gap) {}

  void run() {
    const Matrix x = qkv;
    const Matrix dx = dqkv;
    if (unfused) return run_unfused(x, dx);
    operators().attention_forward(shape, x.columns(0, query), x.columns(query, key),
                                  x.columns(query + key, key), out, lse, scratch);
    operators().attention_backward(shape, x.columns(0, query), x.columns(query, key),
                                   x.columns(query + key, key), out, lse, dout, dx.columns(0, query),
                                   dx.columns(query, key), dx.columns(query + key, key), scratch);
  }
  UnfusedAttention kept() const {
    const bool drops = shape.dropout.probability > 0;
    return {.scores = scores,
            .probabilities = probabilities,
            .mask = drops ? mask.matrix() : Matrix(),
            .dropped = drops ? dropped.matrix() : Matrix(),
            .repeated = repeated};
  }
  void run_unfused(const Matrix& x, const Matrix& dx) const {
    const Matrix q = x.columns(0, query);
    const Matrix k = x.columns(query, key);
    const Matrix v = x.columns(query + key, key);
    operators().unfused_attention_forward(shape, q, k, v, kept(), out, lse, scratch);
    operators().unfused_attention_backward(shape, q, k, v, kept(), dout, dx.columns(0, query),
                                           dx.columns(query, key), dx.columns(query + key, key), scratch);
  }
  Guarded square(DType type) const { return {shape.batch * shape.heads * shape.seq, shape.seq, type}; }
  Dense part(const Guarded& from, std::int64_t first, std::int64_t cols) const {
    const Dense all = from.read();
    return dense(all.rows, cols, [&](auto i, auto j) { return all(i, first + j); });
  }
  bool intact() const {
    return qkv.intact() && dqkv.intact() && dout.intact() && out.intact() && lse.intact() &&
           scratch.intact() && scores.intact() && probabilities.intact() && mask.intact() &&
           dropped.intact() && repeated.intact();
  }

  AttentionShape shape;
  bool unfused;
  std::int64_t query, key;
  Guarded qkv, dqkv, dout, out, lse, scratch;
  Guarded scores, probabilities, mask, dropped, repeated;  // of unfused attention
};

struct Case {
  AttentionShape shape;
  const char* why;
};

struct Way {
  bool unfused, drops;
};

void check(const Case& c, DType type, std::int64_t gap, Way way) {
  AttentionShape s = c.shape;
  if (way.drops)
    s.dropout = random_dropout(std::uniform_real_distribution<double>(0.05, 0.6)(random_engine()));
  if (s.alibi.heads == 0) s.first_head = random_integer(0, 100);
  const std::string what = fmt::format("{} {} gap {} p {}{}", c.why, name_of(type), gap,
                                       s.dropout.probability, way.unfused ? " unfused" : "");
  Attention a(s, type, gap, way.unfused);
  const Dense q = a.part(a.qkv, 0, a.query);
  const Dense k = a.part(a.qkv, a.query, a.key);
  const Dense v = a.part(a.qkv, a.query + a.key, a.key);
  a.run();

  const AttentionReference reference(s, q, k, v, type == DType::fp16 ? std::ldexp(1, -14) : 0);
  const double u = unit_roundoff(DType::fp32);
  const auto d = static_cast<double>(s.head_dim);
  const auto n = static_cast<double>(s.seq);
  const double terms = reference.largest_score_terms();
  const double score = 3 * (d + 8) * u * terms;
  const double sums = 2 * (n + d + 64) * u;
  const double more = 3 * terms + 3 + static_cast<double>(s.heads);
  const double bound = (5 + (way.unfused ? more : 0)) * unit_roundoff(type) + score + sums;
  Dense lse;
  const Summed out = reference.forward(&lse);
  expect_rounded(a.out.read(), out, bound, what + " out");
  // The log-sum-exp is that of the scores before dropout.
  const Dense found = a.lse.read();
  const double stored = way.unfused ? terms * unit_roundoff(type) : 0;
  for (std::int64_t i = 0; i < lse.rows; ++i) {
    for (std::int64_t j = 0; j < lse.cols; ++j) {
      ASSERT_LE(std::fabs(found(i, j) - lse(i, j)), score + stored + sums * (1 + std::fabs(lse(i, j))))
          << what << " lse";
    }
  }
  const AttentionGradients expected = reference.backward(a.dout.read());
  expect_rounded(a.part(a.dqkv, 0, a.query), expected.dq, bound, what + " dq");
  expect_rounded(a.part(a.dqkv, a.query, a.key), expected.dk, bound, what + " dk");
  expect_rounded(a.part(a.dqkv, a.query + a.key, a.key), expected.dv, bound, what + " dv");
  EXPECT_TRUE(a.intact()) << what;
}

constexpr Case kCases[] = {
    {{1, 1, 1, 1, 2}, "one position"},
    {{2, 7, 4, 2, 8}, "groups of two heads, two sequences"},
    {{1, 130, 2, 1, 16}, "two blocks, the second of two rows"},
    {{2, 64, 3, 3, 20}, "as many keys as are drawn at once"},
    {{1, 33, 6, 1, 5}, "multi-query with odd sizes"},
    {{2, 65, 2, 1, 72}, "one key more than are drawn at once"},
    {{1, 97, 3, 1, 128}, "wide heads"},
    {{2, 7, 4, 2, 8, 1}, "a window of the query's own key"},
    {{1, 130, 2, 1, 16, 3}, "a window of three keys, whose draws begin within a chunk"},
    {{1, 300, 2, 1, 16, 67}, "blocks whose first key is not the sequence's"},
    {{1, 97, 3, 1, 128, 1000}, "a window larger than the sequence"},
};

TEST(AttentionDropout, ForwardAndBackward) {
  for (const Case& c : kCases) {
    for (const DType type : element_types()) {
      for (const std::int64_t gap : {1, 8}) {
        check(c, type, gap, {false, true});
        check(c, type, gap, {true, true});
      }
    }
  }
}

constexpr Case kUnfusedCases[] = {
    {{2, 7, 4, 2, 8}, "groups of two heads, two sequences"},
    {{1, 130, 6, 2, 16}, "groups of three heads, two blocks"},
    {{1, 300, 2, 1, 16, 67}, "a window"},
    {{.batch = 1, .seq = 140, .heads = 2, .kv_heads = 2, .head_dim = 16, .first_head = 2, .alibi = {4, 0.5}},
     "slopes"},
    {{.batch = 1, .seq = 140, .heads = 2, .head_dim = 16, .prefix = 135}, "a prefix"},
};

TEST(AttentionUnfused, ForwardAndBackwardWithoutDropout) {
  std::int64_t gap = 1;
  for (const Case& c : kUnfusedCases) {
    for (const DType type : element_types()) check(c, type, gap = 9 - gap, {true, false});
  }
}

TEST(AttentionUnfused, BadTensorsThrow) {
  const Attention a({1, 8, 2, 1, 4}, DType::fp32, 0, true);
  const auto run = [&](const AttentionShape& s, const UnfusedAttention& kept) {
    const Matrix q = a.qkv.matrix().columns(0, 8);
    const Matrix k = a.qkv.matrix().columns(8, 4);
    operators().unfused_attention_forward(s, q, k, k, kept, a.out, a.lse, a.scratch);
    operators().unfused_attention_backward(s, q, k, k, kept, a.dout, a.out, k, k, a.scratch);
  };
  EXPECT_NO_THROW(run(a.shape, a.kept()));
  AttentionShape part = a.shape;
  part.key_count = 8;
  EXPECT_THROW(run(part, a.kept()), Error);
  AttentionShape drops = a.shape;
  drops.dropout.probability = 0.1;  // without memory for a mask
  EXPECT_THROW(run(drops, a.kept()), Error);
  UnfusedAttention narrow = a.kept();
  narrow.repeated = narrow.repeated.columns(0, 4);
  EXPECT_THROW(run(a.shape, narrow), Error);
  UnfusedAttention few = a.kept();
  few.probabilities = few.probabilities.row_range(0, 8);
  EXPECT_THROW(run(a.shape, few), Error);
}

TEST(AttentionDropout, ReferenceGradientsAgreeWithDifferences) {
  AttentionShape s{1, 5, 2, 1, 3};
  s.dropout = random_dropout(0.4);
  const auto uniform = [](std::int64_t rows, std::int64_t cols) {
    std::uniform_real_distribution<double> numbers(-1, 1);
    return dense(rows, cols, [&](auto, auto) { return numbers(random_engine()); });
  };
  const Dense q = uniform(5, 6);
  const Dense k = uniform(5, 3);
  const Dense v = uniform(5, 3);
  const Dense dout = uniform(5, 6);
  const AttentionGradients g = AttentionReference(s, q, k, v).backward(dout);
  Dense lse;
  const auto by_q = [&](const Dense& x) { return AttentionReference(s, x, k, v).forward(&lse).values; };
  const auto by_k = [&](const Dense& x) { return AttentionReference(s, q, x, v).forward(&lse).values; };
  const auto by_v = [&](const Dense& x) { return AttentionReference(s, q, k, x).forward(&lse).values; };
  // Differences over steps of h = 1e-4 leave h²/6 of the third derivative, which is below 100 for inputs up
  // to 1, and the rounding of sums of 30 terms, 1e-16·30·2/h: together below 1e-6.
  const auto expect_same = [](const Summed& found, const Dense& expected, const char* what) {
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      EXPECT_NEAR(found.values.values[i], expected.values[i], 1e-6) << what;
    }
  };
  expect_same(g.dq, numerical_gradient(by_q, q, dout), "dq");
  expect_same(g.dk, numerical_gradient(by_k, k, dout), "dk");
  expect_same(g.dv, numerical_gradient(by_v, v, dout), "dv");
}

TEST(AttentionDropout, ProbabilityZeroIsNoDropout) {
  for (const DType type : element_types()) {
    const AttentionShape plain{2, 70, 4, 2, 16};
    Attention a(plain, type, 0);
    a.run();
    const std::vector<std::uint8_t> results[] = {a.out.bytes(), a.lse.bytes(), a.dqkv.bytes()};
    a.shape.dropout = random_dropout(0);
    a.shape.first_head = 3;
    a.run();
    EXPECT_EQ(results[0], a.out.bytes()) << name_of(type);
    EXPECT_EQ(results[1], a.lse.bytes()) << name_of(type);
    EXPECT_EQ(results[2], a.dqkv.bytes()) << name_of(type);
  }
}

TEST(AttentionDropout, SameBitsEveryTime) {
  AttentionShape s{1, 150, 2, 1, 16};
  s.dropout = random_dropout(0.3);
  Attention a(s, DType::bf16, 0);
  a.run();
  const std::vector<std::uint8_t> results[] = {a.out.bytes(), a.lse.bytes(), a.dqkv.bytes()};
  a.run();
  EXPECT_EQ(results[0], a.out.bytes());
  EXPECT_EQ(results[1], a.lse.bytes());
  EXPECT_EQ(results[2], a.dqkv.bytes());
}

/// A rank with some of the heads, or some of the sequences, drops the same elements as one with all of them.
TEST(AttentionDropout, RanksThatShareTheWorkDropTheSame) {
  AttentionShape s{2, 70, 4, 2, 16};
  s.dropout = random_dropout(0.3);
  s.first_head = 8;
  const std::int64_t tokens = s.batch * s.seq;
  for (const DType type : element_types()) {
    const Guarded q = random_matrix(tokens, 64, type);
    const Guarded k = random_matrix(tokens, 32, type);
    const Guarded v = random_matrix(tokens, 32, type);
    const Guarded scratch(1, operators().attention_scratch(s, type), DType::fp32);
    const Guarded lse(8, s.seq, DType::fp32);
    const Guarded whole(tokens, 64, type);
    operators().attention_forward(s, q, k, v, whole, lse, scratch);
    const Guarded by_head(tokens, 64, type);
    const Guarded by_sequence(tokens, 64, type);
    const Guarded part_lse(4, s.seq, DType::fp32);
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      AttentionShape half = s;
      half.heads = 2;
      half.kv_heads = 1;
      half.first_head = s.first_head + 2 * rank;
      operators().attention_forward(half, q.matrix().columns(32 * rank, 32),
                                    k.matrix().columns(16 * rank, 16), v.matrix().columns(16 * rank, 16),
                                    by_head.matrix().columns(32 * rank, 32), part_lse, scratch);
      AttentionShape one = s;
      one.batch = 1;
      one.dropout.first_row += rank * s.seq;
      const auto rows = [&](const Guarded& x) { return x.matrix().row_range(rank * s.seq, s.seq); };
      operators().attention_forward(one, rows(q), rows(k), rows(v), rows(by_sequence), part_lse, scratch);
    }
    EXPECT_EQ(whole.bytes(), by_head.bytes()) << name_of(type);
    EXPECT_EQ(whole.bytes(), by_sequence.bytes()) << name_of(type);
  }
}

TEST(AttentionDropout, ProbabilitiesOutsideTheRangeThrow) {
  for (const double p : {1.0, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    AttentionShape s{1, 8, 2, 1, 4};
    s.dropout.probability = p;
    Attention a(s, DType::fp32, 0);
    EXPECT_THROW(a.run(), Error) << p;
    const Guarded k(8, 4, DType::fp32);
    EXPECT_THROW(operators().attention_backward(s, a.out, k, k, a.out, a.lse, a.out, a.out, k, k, a.scratch),
                 Error)
        << p;
  }
}

}  // namespace
}  // namespace plumbline::test
