// Forward of attention with one query per sequence, as in decoding. Keys and values are read once, where they
// are: oneDNN would plan a product anew for every number of keys.
#include <cmath>
#include <limits>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/score_scale.hpp"

namespace plumbline::cpu {
namespace {

/// A query and the keys and values that it sees, of one head.
template <class T>
struct SingleQuery {
  const T* query;
  Matrix keys, values;  // a row per key, which may have gaps
  float scale;
  float slope;       // of ALiBi, per unscaled score
  std::int64_t own;  // column of its own key

  std::int64_t count() const { return keys.rows; }
};

/// scores → exp(scale·score - maximum). Returns the sum; adds to `lse` its logarithm and the maximum.
template <class T>
PLUMBLINE_MULTIVERSION float exponentials(const SingleQuery<T>& of, float* scores, float& lse) {
  const std::int64_t count = of.count();
  for (std::int64_t j = 0; j < count; ++j) {
    const T* key = row_of<T>(of.keys, j);
    LaneSum product;
    for_lanes(of.keys.cols, [&] PLUMBLINE_LANES {
      product += keep(load(of.query + i, part) * load(key + i, part), Lanes{}, part);
    });
    scores[j] = sum(product) - of.slope * static_cast<float>(of.own - j);
  }
  const Lanes lowest = splat(-__builtin_inff());
  LaneMaximum best;
  for_lanes(count, [&] PLUMBLINE_LANES { best.take(keep(load(scores + i, part), lowest, part)); });
  const float top = largest(best) * of.scale;
  LaneSum total;
  for_lanes(count, [&] PLUMBLINE_LANES {
    const Lanes p = keep(exp(load(scores + i, part) * of.scale - top), Lanes{}, part);
    total += p;
    store(scores + i, p, part);
  });
  lse = top + std::log(sum(total));
  return sum(total);
}

/// out = Σ p·value ÷ total, summed in `result` (value columns).
template <class T>
PLUMBLINE_MULTIVERSION void weighted_values(const SingleQuery<T>& of, const float* p, float total,
                                            float* result, T* out) {
  const std::int64_t cols = of.values.cols;
  std::fill_n(result, cols, 0.0F);
  for (std::int64_t j = 0; j < of.count(); ++j) {
    const T* value = row_of<T>(of.values, j);
    for_lanes(cols, [&] PLUMBLINE_LANES {
      store(result + i, load(result + i, part) + load(value + i, part) * p[j], part);
    });
  }
  const float factor = 1.0F / total;
  for_lanes(cols, [&] PLUMBLINE_LANES { store(out + i, load(result + i, part) * factor, part); });
}

}  // namespace

void attend_single_queries(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                           const Matrix& out, const Matrix& lse, const AttentionScratch& parts) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t value_dim = shape.values();
  const std::int64_t group = shape.heads / shape.kv_heads;
  const float scale = score_scale(d);
  const std::int64_t position = shape.past - shape.key_start;
  const SeenColumns seen{position, shape.window, shape.prefix, shape.keys()};
  const std::int64_t from = seen.from(0);
  const std::int64_t count = seen.to(0) - from;
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      float& own_lse = row_of<float>(lse, sequence * shape.heads + head)[0];
      const Matrix results = HeadSlice{sequence, head * value_dim, value_dim}.rows(out, 0, 1);
      if (count <= 0) {  // all keys are before the window
        std::memset(results.data, 0, static_cast<std::size_t>(results.cols * size_of(results.dtype)));
        own_lse = -std::numeric_limits<float>::infinity();
        continue;
      }
      const std::int64_t kv_head = head / group;
      const Matrix keys = HeadSlice{sequence * shape.keys(), kv_head * d, d}.rows(k, from, count);
      const Matrix values =
          HeadSlice{sequence * shape.keys(), kv_head * value_dim, value_dim}.rows(v, from, count);
      const auto slope = static_cast<float>(slope_of(shape, head)) / scale;
      with_type("attention_forward", q.dtype, [&](auto type) {
        using T = decltype(type);
        const SingleQuery<T> one{
            row_of<T>(q, sequence) + head * d, keys, values, scale, slope, position - from};
        const float total = exponentials<T>(one, parts.scores, own_lse);
        weighted_values<T>(one, parts.scores, total, parts.result, results.as<T>());
      });
    }
  }
}

}  // namespace plumbline::cpu
