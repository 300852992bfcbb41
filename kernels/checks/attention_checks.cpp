// Requirements of attention.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

constexpr const char* kShapes =
    "q (T, heads*head_dim), k (batch*keys, kv_heads*head_dim), out and v with values() in place of head_dim, "
    "of one floating point type, gradients alike, T = batch*seq, heads a multiple of kv_heads and within "
    "those of ALiBi, lse (batch*heads, seq) fp32, scratch fp32";

/// Keys that a query sees.
void require_mask(const char* op, const AttentionShape& shape) {
  const bool fits = shape.window >= 0 && shape.prefix >= 0 && shape.prefix <= shape.seq &&
                    (shape.prefix == 0 || (shape.window == 0 && shape.alibi.heads == 0));
  const bool part = shape.key_start != 0 || shape.key_count != 0;
  const bool given = shape.past >= 0 && shape.key_start >= 0 && shape.key_count >= 0 && shape.keys() > 0 &&
                     shape.key_start + shape.keys() <= shape.past + shape.seq && (!part || shape.prefix == 0);
  if (!given) {
    throw Error(
        fmt::format("{}: {} keys from {} on for {} queries from {} on, prefix {}; expected keys up to the "
                    "last query's at most, and no prefix with a part of them",
                    op, shape.keys(), shape.key_start, shape.seq, shape.past, shape.prefix));
  }
  if (fits) return;
  throw Error(
      fmt::format("{}: window {}, prefix {} of {} tokens, {} heads with ALiBi; expected numbers that are not "
                  "negative, a prefix within the sequence, and none with a window or ALiBi",
                  op, shape.window, shape.prefix, shape.seq, shape.alibi.heads));
}

bool is_consistent(const AttentionShape& s) {
  return s.batch >= 0 && s.seq > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0 &&
         s.heads % s.kv_heads == 0 && (s.alibi.heads == 0 || s.first_head + s.heads <= s.alibi.heads);
}

bool agrees(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& out,
            const Matrix& lse, const Matrix& scratch) {
  return is_consistent(s) && is_storage(q) && has_shape(q, s.batch * s.seq, s.heads * s.head_dim) &&
         has_shape(k, s.batch * s.keys(), s.kv_heads * s.head_dim, q.dtype) &&
         has_shape(v, s.batch * s.keys(), s.kv_heads * s.values(), q.dtype) &&
         has_shape(out, s.batch * s.seq, s.heads * s.values(), q.dtype) &&
         has_shape(lse, s.batch * s.heads, s.seq, DType::fp32) && scratch.dtype == DType::fp32 &&
         scratch.contiguous();
}

bool is_square(const Matrix& x, const AttentionShape& s, DType type) {
  return x.contiguous() && has_shape(x, s.batch * s.heads * s.seq, s.seq, type);
}

void require_kept(const char* op, const AttentionShape& s, const UnfusedAttention& kept, DType type) {
  const bool whole = s.past == 0 && s.key_start == 0 && s.key_count == 0;
  const bool drops = s.dropout.probability > 0;
  const bool fits = is_square(kept.scores, s, type) && is_square(kept.probabilities, s, type) &&
                    (!drops || (is_square(kept.mask, s, DType::uint8) && is_square(kept.dropped, s, type)));
  const std::int64_t repeated = (s.heads - s.kv_heads) * (s.head_dim + s.values());
  require(whole && fits && (repeated == 0 || has_shape(kept.repeated, s.batch * s.seq, repeated, type)), op,
          "whole sequences; scores, probabilities and, with dropout, mask and dropped ones (batch*heads*seq, "
          "seq), without gaps; repeated (T, (heads - kv_heads)*(head_dim + values()))",
          {{"scores", kept.scores},
           {"probabilities", kept.probabilities},
           {"mask", kept.mask},
           {"dropped", kept.dropped},
           {"repeated", kept.repeated}});
}

}  // namespace

void unfused_attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                               const UnfusedAttention& kept, Matrix out, Matrix lse, Matrix scratch) {
  const char* const op = "unfused_attention_forward";
  require_probability(op, shape.dropout.probability);
  require_mask(op, shape);
  require(agrees(shape, q, k, v, out, lse, scratch), op, kShapes,
          {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"scratch", scratch}});
  require_kept(op, shape, kept, q.dtype);
}

void unfused_attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                                const UnfusedAttention& kept, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                Matrix scratch) {
  const char* const op = "unfused_attention_backward";
  require_probability(op, shape.dropout.probability);
  require_mask(op, shape);
  const Matrix lse(nullptr, shape.batch * shape.heads, shape.seq, DType::fp32);
  require(agrees(shape, q, k, v, dout, lse, scratch) && alike(dq, q) && alike(dk, k) && alike(dv, v), op,
          kShapes, {{"q", q}, {"k", k}, {"v", v}, {"dout", dout}, {"dq", dq}, {"dk", dk}, {"dv", dv}});
  require_kept(op, shape, kept, q.dtype);
}

void attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                       Matrix scratch) {
  require_probability("attention_forward", shape.dropout.probability);
  require_mask("attention_forward", shape);
  require(agrees(shape, q, k, v, out, lse, scratch), "attention_forward", kShapes,
          {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"scratch", scratch}});
}

void attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                        Matrix dout, Matrix dq, Matrix dk, Matrix dv, Matrix scratch) {
  require_probability("attention_backward", shape.dropout.probability);
  require_mask("attention_backward", shape);
  require(agrees(shape, q, k, v, out, lse, scratch) && alike(dout, out) && alike(dq, q) && alike(dk, k) &&
              alike(dv, v),
          "attention_backward", kShapes,
          {{"q", q},
           {"k", k},
           {"v", v},
           {"out", out},
           {"lse", lse},
           {"dout", dout},
           {"dq", dq},
           {"dk", dk},
           {"dv", dv},
           {"scratch", scratch}});
}

void attention_merge(Matrix out, Matrix lse, Matrix part, Matrix part_lse) {
  require(is_storage(out) && alike(part, out) && lse.rows > 0 && out.cols % lse.rows == 0 &&
              lse.cols == out.rows && lse.dtype == DType::fp32 && alike(part_lse, lse),
          "attention_merge", "out, part (T, heads*head_dim) of one type, lse, part_lse (heads, T) fp32",
          {{"out", out}, {"lse", lse}, {"part", part}, {"part_lse", part_lse}});
}

}  // namespace plumbline::checks
