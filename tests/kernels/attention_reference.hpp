// Causal grouped-query attention in double, the whole score matrix kept, with and without windows, ALiBi and
// dropout. The sizes of the terms of its sums are the measure of rounding errors.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {

/// A result, and for every entry the sum of its terms' sizes.
struct Summed {
  Dense values;
  Dense terms;
};

struct AttentionGradients {
  Summed dq, dk, dv;
};

/// `floor` is added to the terms of every result, and to every probability and score gradient in them: below
/// it the type under test has a fixed step instead of a relative one (fp16: 2⁻¹⁴).
class AttentionReference {
 public:
  AttentionReference(const AttentionShape& shape, const Dense& q, const Dense& k, const Dense& v,
                     double floor = 0);

  Summed forward(Dense* lse) const;
  AttentionGradients backward(const Dense& dout) const;
  /// The largest sum of sizes behind a score: Σ|q|·|k|/sqrt(head_dim).
  double largest_score_terms() const;

 private:
  /// The first key that the query at position i sees.
  std::size_t first_seen(std::int64_t i) const;
  /// One past the last.
  std::size_t end_seen(std::int64_t i) const { return static_cast<std::size_t>(std::max(i + 1, s_.prefix)); }
  /// Scaled scores of a row, of the values or of their sizes.
  std::vector<double> scores(std::int64_t sequence, std::int64_t head, std::int64_t i, bool sizes) const;
  std::vector<double> probabilities(std::int64_t sequence, std::int64_t head, std::int64_t i,
                                    double* lse) const;
  /// mask/(1 - probability) of a row.
  std::vector<double> weights(std::int64_t sequence, std::int64_t head, std::int64_t i) const;
  Summed nothing_summed(const Dense& like) const;
  /// ALiBi: amount subtracted from the score of a key `distance` back.
  double past(std::int64_t head, std::int64_t distance) const;
  std::int64_t kv_col(std::int64_t head) const { return head / (s_.heads / s_.kv_heads) * s_.head_dim; }
  void each_row(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) const;

  AttentionShape s_;
  const Dense &q_, &k_, &v_;
  double scale_;
  double floor_;
};

}  // namespace plumbline::test
