#include "analysis/work/framework_mixture.hpp"

namespace plumbline {
namespace {

// Bytes per element of a copy that puts rows in another order, read and written once.
constexpr double kReordered = 4;
// Bytes per expert score of Megatron's router, in fp32: softmax, top-k, map of the chosen, weights, load and
// load-balancing loss, each read or written once (moe_utils.py, topk_softmax_with_capacity and
// switch_load_balancing_loss).
constexpr double kRouted = 10 * 4;
constexpr double kRoutedBack = 6 * 4;
// A launch from Transformer Engine's loop over the products of experts, in those of a framework's operator:
// an estimate without a source.
constexpr double kLaunchInLoop = 0.4;
// Bytes per element of the expert output biases, expert by expert: bias times token weights in fp32, sum with
// the output, all experts' results concatenated and rounded; backward the same and the sums over rows
// (Megatron-Core, moe/experts.py, _apply_bias of TEGroupedMLP). Its packed form, in graphs of a whole step,
// is not modelled.
constexpr double kBiased = 4 + 10 + 8 + 6;
constexpr double kBiasedBack = 6 + 8 + 4 + 4 + 6;
constexpr double kBiasOperators = 4;  // per expert forward; twice as many backward

}  // namespace

void MixtureCalls::exchange(const char* label) {
  const ExpertShape& e = s_.expert;
  const std::int64_t own = e.sent * s_.hidden;
  if (e.dispatcher == TokenDispatcher::flex) {
    calls_.dispatched(label, own);
  } else {
    calls_.expert_collective(CallKind::all_to_all, label, e.ranks, e.tensor, own * e.chosen);
  }
  if (e.overlapped) calls_.alongside();
}

void MixtureCalls::dispatch(const char* label) {
  const ExpertShape& e = s_.expert;
  const std::int64_t rows = e.rows * s_.hidden;
  if (e.dispatcher == TokenDispatcher::allgather) {
    calls_.expert_collective(CallKind::all_gather, label, e.ranks * e.tensor, 1,
                             e.sent * s_.hidden * e.ranks * e.tensor);
    return calls_.stream("permute", rows, kReordered);
  }
  const bool travels = e.ranks > 1;
  if (e.dispatcher != TokenDispatcher::flex || !travels) {
    calls_.stream("permute", e.sent * e.chosen * s_.hidden, kReordered);
  }
  if (travels) exchange(label);
  calls_.expert_collective(CallKind::all_gather, "expert tensor all-gather", e.tensor, 1, rows);
  if (travels && e.local > 1) calls_.stream("sort by expert", rows, kReordered);
}

void MixtureCalls::combine(const char* label) {
  const ExpertShape& e = s_.expert;
  const std::int64_t rows = e.rows * s_.hidden;
  if (e.dispatcher == TokenDispatcher::allgather) {
    calls_.stream("unpermute", rows, kReordered);
    return calls_.expert_collective(CallKind::reduce_scatter, label, e.ranks * e.tensor, 1,
                                    e.sent * s_.hidden * e.ranks * e.tensor);
  }
  const bool travels = e.ranks > 1;
  if (travels && e.local > 1) calls_.stream("sort by expert", rows, kReordered);
  calls_.expert_collective(CallKind::reduce_scatter, "expert tensor reduce-scatter", e.tensor, 1, rows);
  if (travels) exchange(label);
  if (e.dispatcher != TokenDispatcher::flex || !travels) {
    calls_.stream("unpermute", e.sent * e.chosen * s_.hidden, kReordered);
  }
}

void MixtureCalls::shared(GemmPass pass) {
  if (s_.shared == 0) return;
  const std::int64_t up = s_.swiglu ? 2 * s_.shared : s_.shared;
  if (pass == GemmPass::forward) {
    calls_.linear("shared fc1", pass, up, s_.hidden);
    calls_.stream("shared swiglu", s_.tokens * s_.shared, s_.framework->compiled ? 6 : 10);
    calls_.linear("shared fc2", pass, s_.hidden, s_.shared);
    calls_.casts(s_.tokens * s_.hidden, true);
    calls_.casts(s_.tokens * s_.shared, false);
    return calls_.stream("add", s_.rows * s_.hidden, 6);
  }
  calls_.linear("shared fc2", pass, s_.hidden, s_.shared);
  if (pass == GemmPass::input_gradient) {
    calls_.stream("shared swiglu backward", s_.tokens * s_.shared, s_.framework->compiled ? 10 : 16);
    calls_.casts(s_.tokens * (s_.hidden + up), false);
    calls_.stream("add", s_.rows * s_.hidden, 6);
  }
  calls_.linear("shared fc1", pass, up, s_.hidden);
}

void MixtureCalls::forward() {
  const ExpertShape& e = s_.expert;
  calls_.router(GemmPass::forward);
  calls_.stream("route", e.sent * s_.experts, kRouted);
  shared(GemmPass::forward);
  dispatch("expert dispatch forward");
  calls_.grouped("fc1", GemmPass::forward, e.fc1, s_.hidden);
  // Multiplied with the token's weight in the same kernel.
  calls_.stream("swiglu", e.rows * e.ffn, s_.framework->compiled ? 6 : 10);
  calls_.grouped("fc2", GemmPass::forward, s_.hidden, e.ffn);
  if (s_.linear_bias) calls_.stream("expert biases", e.rows * s_.hidden, kBiased);
  calls_.casts(e.rows * (s_.hidden + e.ffn), false);
  if (s_.framework->weighted_results) calls_.stream("weigh results", e.sent * e.chosen * s_.hidden, 4);
  combine("expert combine forward");
}

void MixtureCalls::backward_input() {
  const ExpertShape& e = s_.expert;
  if (s_.framework->weighted_results) calls_.stream("weigh backward", e.sent * e.chosen * s_.hidden, 8);
  dispatch("expert combine backward");
  if (s_.linear_bias) calls_.stream("expert biases backward", e.rows * s_.hidden, kBiasedBack);
  calls_.grouped("fc2", GemmPass::input_gradient, s_.hidden, e.ffn);
  calls_.stream("swiglu backward", e.rows * e.ffn, s_.framework->compiled ? 10 : 16);
  calls_.grouped("fc1", GemmPass::input_gradient, e.fc1, s_.hidden);
  calls_.casts(e.rows * (s_.hidden + e.fc1), false);
  combine("expert dispatch backward");
  shared(GemmPass::input_gradient);
  calls_.stream("route backward", e.sent * s_.experts, kRoutedBack);
  calls_.router(GemmPass::input_gradient);
  calls_.stream("add", e.sent * s_.hidden, 6);
}

void MixtureCalls::backward_weight() {
  calls_.grouped("fc2", GemmPass::weight_gradient, s_.hidden, s_.expert.ffn);
  calls_.grouped("fc1", GemmPass::weight_gradient, s_.expert.fc1, s_.hidden);
  shared(GemmPass::weight_gradient);
  calls_.router(GemmPass::weight_gradient);
}

void MixtureCalls::launches(bool backward) {
  const Software& sw = *s_.framework;
  const double products = backward ? 4 : 2;
  calls_.launches(sw.router_operators, s_.graphs.router);
  calls_.layer_launches(s_.shared > 0 ? 6 : 0);
  const double biases = s_.linear_bias ? (backward ? 2 : 1) * kBiasOperators : 0;
  calls_.launches_eagerly(sw.dispatch_operators +
                          (products * kLaunchInLoop + biases) * static_cast<double>(s_.expert.local));
}

void LatentCalls::forward(double share) {
  const StageShape& l = s_;
  const double norm = 2 * s_.framework->norm_passes;
  if (l.query_rank > 0) {
    calls_.rows_linear("query down", GemmPass::forward, l.query_rank, s_.hidden, share);
    calls_.stream("norm", s_.rows * l.query_rank, norm);
    calls_.linear("query up", GemmPass::forward, s_.q, l.query_rank, share);
  } else {
    calls_.linear("query", GemmPass::forward, s_.q, s_.hidden, share);
  }
  calls_.rows_linear("key value down", GemmPass::forward, l.kv_rank + l.rotated, s_.hidden, share);
  calls_.stream("norm", s_.rows * l.kv_rank, norm);
  calls_.linear("key value up", GemmPass::forward, up_width(), l.kv_rank, share);
  // Queries' rotated parts turn in place; keys are put together of their two parts, values copied out.
  calls_.stream("rope", s_.tokens * (s_.heads * l.rotated + s_.k + s_.values()), 4);
}

void LatentCalls::backward_input() {
  const StageShape& l = s_;
  calls_.stream("rope", s_.tokens * (s_.heads * l.rotated + s_.k + s_.values()), 4);
  calls_.linear("key value up", GemmPass::input_gradient, up_width(), l.kv_rank);
  calls_.stream("norm backward", s_.rows * l.kv_rank, 10);
  calls_.rows_linear("key value down", GemmPass::input_gradient, l.kv_rank + l.rotated, s_.hidden, 1);
  if (l.query_rank > 0) {
    calls_.linear("query up", GemmPass::input_gradient, s_.q, l.query_rank);
    calls_.stream("norm backward", s_.rows * l.query_rank, 10);
    calls_.rows_linear("query down", GemmPass::input_gradient, l.query_rank, s_.hidden, 1);
  } else {
    calls_.linear("query", GemmPass::input_gradient, s_.q, s_.hidden);
  }
  calls_.stream("add", s_.rows * s_.hidden, 6);
}

void LatentCalls::backward_weight() {
  const StageShape& l = s_;
  calls_.linear("key value up", GemmPass::weight_gradient, up_width(), l.kv_rank);
  calls_.rows_linear("key value down", GemmPass::weight_gradient, l.kv_rank + l.rotated, s_.hidden, 1);
  if (l.query_rank > 0) {
    calls_.linear("query up", GemmPass::weight_gradient, s_.q, l.query_rank);
    calls_.rows_linear("query down", GemmPass::weight_gradient, l.query_rank, s_.hidden, 1);
  } else {
    calls_.linear("query", GemmPass::weight_gradient, s_.q, s_.hidden);
  }
}

void LatentCalls::gather() {
  if (s_.sequence_parallel)
    calls_.collective(CallKind::all_gather, "tensor collectives forward", gathered(), s_.type);
}

void LatentCalls::scatter() {
  calls_.collective(s_.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce,
                    "tensor collectives backward", gathered(), s_.type);
}

}  // namespace plumbline
