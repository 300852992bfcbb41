// Causal attention that keeps its probabilities. Scores are computed in the blocks of attention.hpp, which
// never reach past what their rows see. A block lies without gaps at the start of its rows' memory in the
// square tensors, since oneDNN's fast kernels need that. The scratch is that of fused attention.
#include <cmath>
#include <cstring>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/dropout_lanes.hpp"
#include "kernels/score_scale.hpp"
#include "kernels/unfused_heads.hpp"

namespace plumbline::cpu {
namespace {

/// Scores of some query rows of a head with the keys that they see.
struct ScoreBlock {
  std::int64_t square_row;   // in the square tensors
  std::int64_t first, rows;  // queries
  std::int64_t begin, cols;  // keys
  SeenColumns seen;
  Matrix of(const Matrix& square) const { return {square.at(square_row, 0), rows, cols, square.dtype}; }
};

template <class F>
void each_score_block(const AttentionShape& s, std::int64_t sequence, std::int64_t head, F&& f) {
  for (std::int64_t first = 0; first < s.seq; first += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, s.seq - first);
    const std::int64_t begin = first_key(s, first);
    const std::int64_t cols = std::min(std::max(first + rows, s.prefix), s.seq) - begin;
    f(ScoreBlock{(sequence * s.heads + head) * s.seq + first,
                 first,
                 rows,
                 begin,
                 cols,
                 {first - begin, s.window, s.prefix, cols}});
  }
}

/// Softmax of scale·score - slope·distance, zero where nothing is seen. `row`: memory for one row.
template <class T>
PLUMBLINE_MULTIVERSION void keep_softmax(const T* scores, T* probabilities, float* row, std::int64_t rows,
                                         const SeenColumns& seen, float scale, float slope, float* lse) {
  const Lanes lowest = splat(-__builtin_inff());
  const Lanes index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = seen.from(r);
    const std::int64_t count = seen.to(r) - from;
    const T* in = scores + r * seen.cols + from;
    T* out = probabilities + r * seen.cols;
    const auto own = static_cast<float>(seen.diagonal + r - from);
    LaneMaximum best;
    for_lanes(count, [&] PLUMBLINE_LANES {
      const Lanes distance = splat(own - static_cast<float>(i)) - index;
      const Lanes score = load(in + i, part) * scale - slope * distance;
      store(row + i, score, part);
      best.take(keep(score, lowest, part));
    });
    const float top = largest(best);
    LaneSum total;
    for_lanes(count, [&] PLUMBLINE_LANES {
      const Lanes p = keep(exp(load(row + i, part) - top), Lanes{}, part);
      total += p;
      store(row + i, p, part);
    });
    const float whole = sum(total);
    zero_before(out, from);
    for_lanes(count, [&] PLUMBLINE_LANES { store(out + from + i, load(row + i, part) * (1 / whole), part); });
    zero_behind(out, from + count, seen.cols);
    lse[r] = top + std::log(whole);
  }
}

PLUMBLINE_INLINE void keep_mask(std::uint8_t* to, const std::uint8_t* mask, All /*part*/) {
  std::memcpy(to, mask, kLanes);
}
PLUMBLINE_INLINE void keep_mask(std::uint8_t* to, const std::uint8_t* mask, First part) {
  std::memcpy(to, mask, static_cast<std::size_t>(part.count));
}

/// Draws the mask of a block, and drops its probabilities.
template <class T>
PLUMBLINE_MULTIVERSION void keep_dropped(const DrawnRows& draws, const T* probabilities, std::int64_t rows,
                                         const SeenColumns& seen, std::uint8_t* masks, T* dropped) {
  const float factor = dropout_scale(draws.dropout.probability);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* p = probabilities + r * seen.cols;
    std::uint8_t* kept = masks + r * seen.cols;
    T* out = dropped + r * seen.cols;
    zero_before(out, seen.from(r));
    zero_before(kept, seen.from(r));
    over_masked_row(draws, r, seen.from(r), seen.to(r), [&] PLUMBLINE_MASKED_LANES {
      store(out + i, masked(load(p + i, part) * factor, mask, part), part);
      keep_mask(kept + i, mask, part);
    });
    zero_behind(out, seen.to(r), seen.cols);
    zero_behind(kept, seen.to(r), seen.cols);
  }
}

/// Gradients of the (dropped) probabilities → of the unscaled scores: p·(dp - Σ p·dp)·scale, where dp is that
/// of the probability itself.
template <bool kDrops, class T>
PLUMBLINE_MULTIVERSION void softmax_gradient(const T* probabilities, const std::uint8_t* masks, T* gradients,
                                             std::int64_t rows, const SeenColumns& seen, float scale,
                                             float factor) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = seen.from(r);
    const std::int64_t start = r * seen.cols + from;
    const T* p = probabilities + start;
    T* dp = gradients + start;
    const auto gradient = [&](std::int64_t i, auto part) __attribute__((always_inline)) {
      const Lanes given = load(dp + i, part);
      if constexpr (kDrops) return masked(given * factor, masks + start + i, part);
      return given;
    };
    LaneSum total;
    for_lanes(seen.to(r) - from, [&] PLUMBLINE_LANES { total += load(p + i, part) * gradient(i, part); });
    const float mean = sum(total);
    for_lanes(seen.to(r) - from, [&] PLUMBLINE_LANES {
      store(dp + i, load(p + i, part) * (gradient(i, part) - mean) * scale, part);
    });
    zero_before(gradients + r * seen.cols, from);
    zero_behind(gradients + r * seen.cols, seen.to(r), seen.cols);
  }
}

}  // namespace

void CpuOperators::unfused_attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                                             const UnfusedAttention& kept, Matrix out, Matrix lse,
                                             Matrix scratch) {
  require_scratch("unfused_attention_forward", scratch, attention_scratch(shape, q.dtype));
  const AttentionScratch parts(shape, scratch);
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const bool drops = shape.dropout.probability > 0;
  const Matrix keys(parts.keys, shape.seq, d, q.dtype);
  const Matrix values(parts.values, shape.seq, shape.values(), q.dtype);
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const std::int64_t kv_head = head / group;
    const std::int64_t member = head % group;
    const Matrix head_keys = keys_of_head(shape, k, kept, kv_head, member);
    const Matrix head_values = values_of_head(shape, v, kept, kv_head, member);
    if (member > 0) {
      copy(keys_of_head(shape, k, kept, kv_head, 0), head_keys);
      copy(values_of_head(shape, v, kept, kv_head, 0), head_values);
    }
    const auto slope = static_cast<float>(slope_of(shape, head));
    for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
      copy(head_keys.row_range(sequence * shape.seq, shape.seq), keys);
      copy(head_values.row_range(sequence * shape.seq, shape.seq), values);
      float* row_lse = row_of<float>(lse, sequence * shape.heads + head);
      each_score_block(shape, sequence, head, [&](const ScoreBlock& block) {
        const std::int64_t row = sequence * shape.seq + block.first;
        const Matrix queries(parts.queries, block.rows, d, q.dtype);
        const Matrix result(parts.result, block.rows, shape.values(), q.dtype);
        const Matrix scores = block.of(kept.scores);
        const Matrix probabilities = block.of(kept.probabilities);
        copy(q.columns(head * d, d).row_range(row, block.rows), queries);
        gemm({.a = queries, .b = keys.row_range(block.begin, block.cols), .c = scores, .b_transposed = true});
        with_type("unfused_attention_forward", q.dtype, [&](auto type) {
          using T = decltype(type);
          keep_softmax<T>(scores.as<T>(), probabilities.as<T>(), parts.scores, block.rows, block.seen,
                          score_scale(shape.head_dim), slope, row_lse + block.first);
          if (!drops) return;
          keep_dropped<T>(draws_of(shape, sequence, head, block.first), probabilities.as<T>(), block.rows,
                          block.seen, block.of(kept.mask).as<std::uint8_t>(), block.of(kept.dropped).as<T>());
        });
        gemm({.a = drops ? block.of(kept.dropped) : probabilities,
              .b = values.row_range(block.begin, block.cols),
              .c = result});
        copy(result, out.columns(head * shape.values(), shape.values()).row_range(row, block.rows));
      });
    }
  }
}

void CpuOperators::unfused_attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                                              const UnfusedAttention& kept, Matrix dout, Matrix dq, Matrix dk,
                                              Matrix dv, Matrix scratch) {
  require_scratch("unfused_attention_backward", scratch, attention_scratch(shape, q.dtype));
  const AttentionScratch parts(shape, scratch);
  const std::int64_t group = shape.heads / shape.kv_heads;
  const Matrix key_gradients(parts.key_gradients, shape.seq, shape.head_dim, DType::fp32);
  const Matrix value_gradients(parts.value_gradients, shape.seq, shape.values(), DType::fp32);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    fill(key_gradients, 0);
    fill(value_gradients, 0);
    for (std::int64_t member = 0; member < group; ++member) {
      const auto of_sequence = [&](const Matrix& x) { return x.row_range(sequence * shape.seq, shape.seq); };
      const std::int64_t head = kv_head * group + member;
      unfused_head_backward(
          shape, sequence, head,
          {.query = of_sequence(q.columns(head * shape.head_dim, shape.head_dim)),
           .keys = of_sequence(keys_of_head(shape, k, kept, kv_head, member)),
           .values = of_sequence(values_of_head(shape, v, kept, kv_head, member)),
           .output_gradient = of_sequence(dout.columns(head * shape.values(), shape.values())),
           .query_gradient = of_sequence(dq.columns(head * shape.head_dim, shape.head_dim)),
           .key_gradients = key_gradients,
           .value_gradients = value_gradients},
          kept, parts);
    }
    const auto slice = [&](const Matrix& x, std::int64_t width) {
      return x.columns(kv_head * width, width).row_range(sequence * shape.seq, shape.seq);
    };
    copy(key_gradients, slice(dk, shape.head_dim));
    copy(value_gradients, slice(dv, shape.values()));
  }
}

void CpuOperators::unfused_head_backward(const AttentionShape& shape, std::int64_t sequence,
                                         std::int64_t head, const HeadMatrices& of,
                                         const UnfusedAttention& kept, const AttentionScratch& parts) {
  const std::int64_t d = shape.head_dim;
  const DType type = of.query.dtype;
  const bool drops = shape.dropout.probability > 0;
  const Matrix keys(parts.keys, shape.seq, d, type);
  const Matrix values(parts.values, shape.seq, shape.values(), type);
  copy(of.keys, keys);
  copy(of.values, values);
  each_score_block(shape, sequence, head, [&](const ScoreBlock& block) {
    const auto rows = [&](const Matrix& x) { return x.row_range(block.first, block.rows); };
    const auto seen = [&](const Matrix& x) { return x.row_range(block.begin, block.cols); };
    const Matrix queries(parts.queries, block.rows, d, type);
    const Matrix output_gradients(parts.output_gradients, block.rows, shape.values(), type);
    const Matrix result(parts.result, block.rows, d, type);
    const Matrix probabilities = block.of(kept.probabilities);
    const Matrix gradients = block.of(kept.scores);
    copy(rows(of.query), queries);
    copy(rows(of.output_gradient), output_gradients);
    gemm({.a = output_gradients, .b = seen(values), .c = gradients, .b_transposed = true});
    gemm({.a = drops ? block.of(kept.dropped) : probabilities,
          .b = output_gradients,
          .c = seen(of.value_gradients),
          .a_transposed = true,
          .accumulate = true});
    with_type("unfused_attention_backward", type, [&](auto element) {
      using T = decltype(element);
      if (drops) {
        softmax_gradient<true, T>(probabilities.as<T>(), block.of(kept.mask).as<std::uint8_t>(),
                                  gradients.as<T>(), block.rows, block.seen, score_scale(shape.head_dim),
                                  dropout_scale(shape.dropout.probability));
      } else {
        softmax_gradient<false, T>(probabilities.as<T>(), nullptr, gradients.as<T>(), block.rows, block.seen,
                                   score_scale(shape.head_dim), 1);
      }
    });
    gemm({.a = gradients,
          .b = queries,
          .c = seen(of.key_gradients),
          .a_transposed = true,
          .accumulate = true});
    gemm({.a = gradients, .b = seen(keys), .c = result});
    copy(result, rows(of.query_gradient));
  });
}

}  // namespace plumbline::cpu
