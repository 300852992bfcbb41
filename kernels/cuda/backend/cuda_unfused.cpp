// Attention that keeps its probabilities: cuBLASLt's products over the key/value heads of a sequence at once,
// for each query head of a group, and the kernels between them.
#include "kernels/checks/arguments.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "kernels/score_scale.hpp"
#include "kernels/unfused_heads.hpp"

namespace plumbline::cuda {
namespace {

/// A matrix of the first key/value head, and the distance in elements to that of the next.
struct OfHeads {
  Matrix first;
  std::int64_t step;
};

/// The `member`-th query heads of all key/value heads, in one sequence.
class Members {
 public:
  Members(const AttentionShape& shape, const UnfusedAttention& kept, std::int64_t sequence,
          std::int64_t member)
      : s_(shape), kept_(kept), sequence_(sequence), member_(member), group_(shape.heads / shape.kv_heads) {}

  /// Columns of `width` per query head.
  OfHeads queries(const Matrix& x, std::int64_t width) const {
    return {rows(x.columns(member_ * width, width)), group_ * width};
  }
  OfHeads keys(const Matrix& k) const {
    return {rows(keys_of_head(s_, k, kept_, 0, member_)), copies() * s_.head_dim};
  }
  OfHeads values(const Matrix& v) const {
    return {rows(values_of_head(s_, v, kept_, 0, member_)), copies() * s_.values()};
  }
  /// Columns of `width` per key/value head.
  OfHeads gradients(const Matrix& x, std::int64_t width) const { return {rows(x.columns(0, width)), width}; }
  OfHeads square(const Matrix& x) const {
    return {x.row_range((sequence_ * s_.heads + member_) * s_.seq, s_.seq), group_ * s_.seq * s_.seq};
  }
  /// One of the members adds to the gradients of the others before it.
  bool adds() const { return member_ > 0; }

 private:
  Matrix rows(const Matrix& x) const { return x.row_range(sequence_ * s_.seq, s_.seq); }
  std::int64_t copies() const { return member_ == 0 ? 1 : group_ - 1; }

  const AttentionShape& s_;
  const UnfusedAttention& kept_;
  std::int64_t sequence_, member_, group_;
};

template <class Use>
void each_member(const AttentionShape& shape, const UnfusedAttention& kept, Use&& use) {
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::int64_t member = 0; member < shape.heads / shape.kv_heads; ++member)
      use(Members(shape, kept, sequence, member));
  }
}

/// The form of a product, its operands missing.
struct Form {
  bool a_transposed = false, b_transposed = false, accumulate = false;
  float factor = 1;
};

void multiply(MatmulCache& matmul, std::int64_t heads, const OfHeads& a, const OfHeads& b, const OfHeads& c,
              const Form& form) {
  matmul.run({.a = a.first,
              .b = b.first,
              .c = c.first,
              .a_transposed = form.a_transposed,
              .b_transposed = form.b_transposed,
              .accumulate = form.accumulate},
             {.count = heads, .a_step = a.step, .b_step = b.step, .c_step = c.step, .factor = form.factor});
}

void require_square(const char* op, const UnfusedAttention& kept) {
  require(kept.scores.rows < (std::int64_t{1} << 31), op, "batch*heads*seq below 2^31",
          {{"scores", kept.scores}});
}

}  // namespace

void CudaOperators::unfused_attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                                              const UnfusedAttention& kept, Matrix out, Matrix lse,
                                              Matrix /*scratch*/) {
  require_square("unfused_attention_forward", kept);
  if (q.empty()) return;
  repeat_heads(queue_, shape, k, v, kept.repeated);
  each_member(shape, kept, [&](const Members& of) {
    multiply(matmul_, shape.kv_heads, of.queries(q, shape.head_dim), of.keys(k), of.square(kept.scores),
             {.b_transposed = true, .factor = score_scale(shape.head_dim)});
  });
  keep_softmax(queue_, shape, kept, lse);
  const Matrix& weights = shape.dropout.probability > 0 ? kept.dropped : kept.probabilities;
  each_member(shape, kept, [&](const Members& of) {
    multiply(matmul_, shape.kv_heads, of.square(weights), of.values(v), of.queries(out, shape.values()), {});
  });
}

void CudaOperators::unfused_attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                                               const UnfusedAttention& kept, Matrix dout, Matrix dq,
                                               Matrix dk, Matrix dv, Matrix /*scratch*/) {
  require_square("unfused_attention_backward", kept);
  if (q.empty()) return;
  const Matrix& weights = shape.dropout.probability > 0 ? kept.dropped : kept.probabilities;
  each_member(shape, kept, [&](const Members& of) {
    const OfHeads gradient = of.queries(dout, shape.values());
    multiply(matmul_, shape.kv_heads, gradient, of.values(v), of.square(kept.scores), {.b_transposed = true});
    multiply(matmul_, shape.kv_heads, of.square(weights), gradient, of.gradients(dv, shape.values()),
             {.a_transposed = true, .accumulate = of.adds()});
  });
  softmax_gradient(queue_, shape, kept);
  each_member(shape, kept, [&](const Members& of) {
    const OfHeads scores = of.square(kept.scores);
    multiply(matmul_, shape.kv_heads, scores, of.keys(k), of.queries(dq, shape.head_dim), {});
    multiply(matmul_, shape.kv_heads, scores, of.queries(q, shape.head_dim), of.gradients(dk, shape.head_dim),
             {.a_transposed = true, .accumulate = of.adds()});
  });
}

}  // namespace plumbline::cuda
