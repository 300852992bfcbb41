#include "analysis/work/frameworks/torchtitan_deepseek.hpp"

#include "analysis/work/frameworks/torchtitan_llama.hpp"

namespace plumbline {
namespace {

// Bytes per element, read and written, of 16-bit values unless said otherwise; the comments name operators of
// models/common/moe.py and token_dispatcher.py.
constexpr double kCopied = 4;  // rows gathered by index, or written to their index
constexpr double kSum = 6;
constexpr double kSiluAndProduct = 4 + 6;
constexpr double kSiluAndProductBack = 6 + 6 + 6;  // the product's two gradients, SiLU's
// combine: results to fp32, times their scores, back to 16 bits; backward the cast, the product's two
// gradients, the sum of the scores' over a row, the other cast.
constexpr double kWeighed = 6 + 8 + 6;
constexpr double kWeighedBack = 6 + (8 + 12) + 4 + 6;
// deterministic_scatter_add: sorted indices, then row by row (aten, native/cuda/Indexing.cu,
// indexing_backward_kernel). Every added row is read; zeros, their copy and the sums go over the tokens.
constexpr double kAddedRow = 2;
constexpr double kSummedTokens = 2 + 4 + 4;
// Gradients of a gather by index are added to zeros in the same way.
constexpr double kGathered = 2 + 4;
// Router in fp32 (torch.autocast): its input cast, its gradient cast back. The product reads twice the bytes,
// on a device whose fp32 units would take as long.
constexpr double kCast = 6;
constexpr double kWideProduct = 2;
// Per fp32 score: softmax, sum with the bias, top-k, map of the chosen and its count. Backward softmax and
// the zeros that the chosen scores' gradients are put into.
constexpr double kScored = 8 + 8 + 4 + 1 + 1;
constexpr double kScoredBack = 12 + 4;
constexpr std::int64_t kCount = 8;  // bytes of an expert's number of tokens
// Operators that the host launches: between the read of the counts and the exchange (its result, the call);
// _permute (counts transposed, two running sums each less the counts, a segment and a position per row, three
// gathers, two sums, the rows); the ends of the experts' rows before their first product.
constexpr double kExchangeLaunch = 2;
constexpr double kPermuteLaunches = 14;
constexpr double kProductLaunches = 2;

struct Sizes {
  std::int64_t tokens, sent, own;  // elements of the stream, of all its tokens' choices, of the own experts'
};

Sizes sizes_of(const StageShape& s) {
  const std::int64_t tokens = s.expert.sent * s.stream.hidden;
  return {tokens, tokens * s.expert.chosen, s.expert.rows * s.stream.hidden};
}

/// The fullest rank receives most.
void exchange(const StageShape& s, const char* label, FrameworkCalls& calls) {
  const auto most = static_cast<std::int64_t>(s.expert.fullest * static_cast<double>(sizes_of(s).sent));
  calls.expert_collective(CallKind::all_to_all, label, s.expert.ranks, s.expert.tensor, most);
}

void dispatch(const StageShape& s, FrameworkCalls& calls) {
  const Sizes n = sizes_of(s);
  const bool reads = !s.moe.padded && !s.graphs.step;
  calls.stream("permute", n.sent, kCopied);
  if (s.expert.ranks == 1) return;
  calls.expert_collective(CallKind::all_to_all, "expert counts exchange", s.expert.ranks, s.expert.tensor,
                          s.moe.experts * kCount / s.numerics.e());
  exchange(s, "expert dispatch forward", calls);
  if (reads) calls.launched(kExchangeLaunch, true);
  calls.stream("sort by expert", n.own, kCopied);
  if (reads) calls.launched(kPermuteLaunches);
}

/// Gate and up are products of their own.
void shared_forward(const StageShape& s, bool again, FrameworkCalls& calls) {
  if (s.moe.shared == 0) return;
  for (int part = 0; part < 2; ++part)
    calls.linear("shared fc1", GemmPass::forward, s.moe.shared, s.stream.hidden);
  calls.stream("shared swiglu", s.stream.tokens * s.moe.shared, kSiluAndProduct);
  if (again) return;  // the last product's result is not read
  calls.linear("shared fc2", GemmPass::forward, s.stream.hidden, s.moe.shared);
  calls.stream("add", s.stream.rows * s.stream.hidden, kSum);
}

void shared_backward(const StageShape& s, FrameworkCalls& calls) {
  if (s.moe.shared == 0) return;
  calls.linear("shared fc2", GemmPass::input_gradient, s.stream.hidden, s.moe.shared);
  calls.stream("shared swiglu backward", s.stream.tokens * s.moe.shared, kSiluAndProductBack);
  for (int part = 0; part < 2; ++part) {
    calls.linear("shared fc1", GemmPass::input_gradient, s.moe.shared, s.stream.hidden);
    calls.stream("add gradients of inputs", s.stream.tokens * s.stream.hidden, kSum);
  }
}

}  // namespace

void torchtitan_heads_forward(const StageShape& s, FrameworkCalls& calls) {
  const AttentionWidths& a = s.attention;
  calls.stream("rope", s.stream.tokens * (a.heads + 1) * a.rotated, kComplexRotation);
  calls.stream("join parts of heads", s.stream.tokens * (a.q + a.k), kCopied);
}

void torchtitan_heads_backward(const StageShape& s, FrameworkCalls& calls) {
  const AttentionWidths& a = s.attention;
  // Split queries, keys with values, and compressed vectors with the turned part, which all heads' keys read.
  const std::int64_t joined = a.q + a.own_keys() + a.values() + a.kv_rank + a.rotated;
  calls.stream("add gradients of heads", s.stream.tokens * a.heads * a.rotated, 2);
  calls.stream("rope", s.stream.tokens * (a.heads + 1) * a.rotated, kComplexRotation);
  calls.stream("join parts of heads", s.stream.tokens * joined, kCopied);
}

void torchtitan_mixture_forward(const StageShape& s, bool again, FrameworkCalls& calls) {
  const ExpertShape& e = s.expert;
  const Sizes n = sizes_of(s);
  calls.stream("router casts", n.tokens, kCast);
  calls.router(GemmPass::forward, kWideProduct);
  calls.stream("route", e.sent * s.moe.experts, kScored);
  dispatch(s, calls);
  for (int part = 0; part < 2; ++part) {
    calls.grouped("fc1", GemmPass::forward, e.ffn, s.stream.hidden);
    if (e.ranks > 1 && !s.moe.padded && !s.graphs.step) calls.launched(kProductLaunches);
  }
  calls.stream("swiglu", e.rows * e.ffn, kSiluAndProduct);
  calls.grouped("fc2", GemmPass::forward, s.stream.hidden, e.ffn);
  if (e.ranks > 1) {
    calls.stream("sort by expert", n.own, kCopied);
    exchange(s, "expert combine forward", calls);
  }
  calls.stream("weigh results", n.sent, kWeighed);
  calls.stream("unpermute", n.sent, kAddedRow);
  calls.stream("unpermute", n.tokens, kSummedTokens);
  shared_forward(s, again, calls);
}

void torchtitan_mixture_backward(const StageShape& s, FrameworkCalls& calls) {
  const ExpertShape& e = s.expert;
  const Sizes n = sizes_of(s);
  shared_backward(s, calls);
  calls.stream("permute", n.sent, kCopied);
  calls.stream("weigh backward", n.sent, kWeighedBack);
  if (e.ranks > 1) {
    exchange(s, "expert combine backward", calls);
    calls.stream("sort by expert", n.own, kCopied);
  }
  calls.grouped("fc2", GemmPass::input_gradient, s.stream.hidden, e.ffn);
  calls.stream("swiglu backward", e.rows * e.ffn, kSiluAndProductBack);
  for (int part = 0; part < 2; ++part) calls.grouped("fc1", GemmPass::input_gradient, e.ffn, s.stream.hidden);
  calls.stream("add gradients of inputs", n.own, kSum);
  if (e.ranks > 1) {
    calls.stream("sort by expert", n.own, kAddedRow + kGathered);
    exchange(s, "expert dispatch backward", calls);
  }
  calls.stream("unpermute", n.sent, kAddedRow);
  calls.stream("unpermute", n.tokens, kGathered);
  calls.stream("route backward", e.sent * s.moe.experts, kScoredBack);
  calls.router(GemmPass::input_gradient, kWideProduct);
  calls.stream("router casts", n.tokens, kCast);
  calls.stream("add", n.tokens, kSum);
}

}  // namespace plumbline
