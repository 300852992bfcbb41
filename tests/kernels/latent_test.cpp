// Operators of latent attention: heads of two parts, and values of another width than queries and keys.
#include <cmath>
#include <cstring>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

TEST(Latent, HeadsAreJoinedAndTakenApart) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kShared = 6;
  constexpr std::int64_t kOwn = 21;
  constexpr std::int64_t kTokens = 5;
  for (const Storage& storage : storages()) {
    const Guarded shared = random_matrix(kTokens, kShared, storage.type, storage.gap);
    const Guarded own = random_matrix(kTokens, kHeads * kOwn, storage.type, storage.gap);
    const Guarded y(kTokens, kHeads * (kShared + kOwn), storage.type, storage.gap);
    operators().join_heads(shared, own, kHeads, y);
    const Dense expected = dense(kTokens, y.matrix().cols, [&](auto t, auto j) {
      const std::int64_t head = j / (kShared + kOwn);
      const std::int64_t at = j % (kShared + kOwn);
      return at < kShared ? shared.read()(t, at) : own.read()(t, head * kOwn + at - kShared);
    });
    expect_close(y, expected, 0, describe(storage));

    const Dense dy = y.read();
    const Dense sum = dense(kTokens, kShared, [&](auto t, auto j) {
      double total = 0;
      for (std::int64_t head = 0; head < kHeads; ++head) total += dy(t, head * (kShared + kOwn) + j);
      return total;
    });
    const Dense terms = dense(kTokens, kShared, [&](auto t, auto j) {
      double total = 0;
      for (std::int64_t head = 0; head < kHeads; ++head)
        total += std::fabs(dy(t, head * (kShared + kOwn) + j));
      return total;
    });
    for (const DType type : {storage.type, DType::fp32}) {
      const Guarded dshared(kTokens, kShared, type, storage.gap);
      const Guarded down(kTokens, kHeads * kOwn, storage.type, storage.gap);
      operators().split_heads(y, kHeads, dshared, down);
      expect_close(dshared, sum, tolerance(type), describe(storage), terms);
      expect_close(down, own.read(), 0, describe(storage));
      EXPECT_TRUE(dshared.intact() && down.intact());
    }
    const Guarded alone(kTokens, kHeads * kOwn, storage.type, storage.gap);
    operators().split_heads(y, kHeads, {}, alone);
    expect_close(alone, own.read(), 0, describe(storage));
  }
}

/// All that attention computes, of heads of `width` elements and values of `values`.
struct Attended {
  Attended(AttentionShape shape, const Dense& q, const Dense& k, const Dense& v, const Dense& dout_)
      : out(q.rows, dout_.cols, DType::fp32),
        dq(q.rows, q.cols, DType::fp32),
        dk(k.rows, k.cols, DType::fp32),
        dv(v.rows, v.cols, DType::fp32) {
    const Guarded lse(shape.batch * shape.heads, shape.seq, DType::fp32);
    const Guarded scratch(1, operators().attention_scratch(shape, DType::fp32), DType::fp32);
    const Guarded queries = matrix_of(q);
    const Guarded keys = matrix_of(k);
    const Guarded values = matrix_of(v);
    const Guarded dout = matrix_of(dout_);
    operators().attention_forward(shape, queries, keys, values, out, lse, scratch);
    operators().attention_backward(shape, queries, keys, values, out, lse, dout, dq, dk, dv, scratch);
    EXPECT_TRUE(scratch.intact());
  }
  static Guarded matrix_of(const Dense& x) {
    Guarded matrix(x.rows, x.cols, DType::fp32);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      for (std::int64_t j = 0; j < x.cols; ++j)
        static_cast<float*>(matrix.matrix().at(i, j))[0] = static_cast<float>(x(i, j));
    }
    return matrix;
  }
  Guarded out, dq, dk, dv;
};

/// Every head of `from` elements of x as the first of `to` elements, times `factor`; the rest is 0 or cut
/// off.
Dense resized(const Dense& x, std::int64_t from, std::int64_t to, double factor = 1) {
  return dense(x.rows, x.cols / from * to,
               [&](auto i, auto j) { return j % to < from ? factor * x(i, j / to * from + j % to) : 0.0; });
}

/// Attention of heads as wide as the wider of both, the others padded with zeros, computes the same.
TEST(Latent, ValuesMayBeNarrowerOrWiderThanKeys) {
  struct Widths {
    std::int64_t head, values;
  };
  for (const Widths& widths : {Widths{24, 16}, Widths{12, 20}, Widths{5, 3}}) {
    const std::int64_t wide = std::max(widths.head, widths.values);
    AttentionShape shape{2, 150, 4, 2, widths.head};
    shape.value_dim = widths.values;
    const AttentionShape whole{2, 150, 4, 2, wide};
    const Dense q = random_matrix(300, 4 * widths.head, DType::fp32).read();
    const Dense k = random_matrix(300, 2 * widths.head, DType::fp32).read();
    const Dense v = random_matrix(300, 2 * widths.values, DType::fp32).read();
    const Dense dout = random_matrix(300, 4 * widths.values, DType::fp32).read();
    const double scale = std::sqrt(static_cast<double>(wide) / static_cast<double>(widths.head));
    const Attended found(shape, q, k, v, dout);
    const Attended expected(whole, resized(q, widths.head, wide, scale), resized(k, widths.head, wide),
                            resized(v, widths.values, wide), resized(dout, widths.values, wide));
    const auto compare = [&](const Guarded& x, const Guarded& y, std::int64_t width, double factor,
                             const char* what) {
      const Dense part = resized(y.read(), wide, width, factor);
      EXPECT_LE(normalised_error(x.read(), part), 2e-5) << what;
    };
    compare(found.out, expected.out, widths.values, 1, "out");
    compare(found.dq, expected.dq, widths.head, scale, "dq");
    compare(found.dk, expected.dk, widths.head, 1, "dk");
    compare(found.dv, expected.dv, widths.values, 1, "dv");
  }
}

TEST(Latent, RefusesWhatDoesNotFit) {
  const Guarded shared = random_matrix(4, 2, DType::fp32);
  const Guarded own = random_matrix(4, 9, DType::fp32);
  const Guarded y(4, 15, DType::fp32);
  EXPECT_NO_THROW(operators().join_heads(shared, own, 3, y));
  EXPECT_THROW(operators().join_heads(shared, own, 5, y), Error);
  EXPECT_THROW(operators().join_heads(own, shared, 3, y), Error);
  EXPECT_THROW(operators().join_heads({}, own, 3, y), Error);
  EXPECT_THROW(operators().split_heads(own, 3, shared, y), Error);
}

}  // namespace
}  // namespace plumbline::test
