// Latent attention around its core, as Megatron-Core runs it (multi_latent_attention.py).
#include "analysis/work/frameworks/framework_mixture.hpp"
#include "analysis/work/frameworks/torchtitan_deepseek.hpp"

namespace plumbline {

void LatentCalls::forward(double share) {
  const StageShape& l = s_;
  const double norm = 2 * s_.software->kernels.norm_passes;
  if (l.attention.query_rank > 0) {
    calls_.rows_linear("query down", GemmPass::forward, l.attention.query_rank, s_.stream.hidden, share);
    calls_.stream("norm", s_.stream.rows * l.attention.query_rank, norm);
    calls_.linear("query up", GemmPass::forward, s_.attention.q, l.attention.query_rank, share);
  } else {
    calls_.linear("query", GemmPass::forward, s_.attention.q, s_.stream.hidden, share);
  }
  calls_.rows_linear("key value down", GemmPass::forward, l.attention.kv_rank + l.attention.rotated,
                     s_.stream.hidden, share);
  calls_.stream("norm", s_.stream.rows * l.attention.kv_rank, norm);
  calls_.linear("key value up", GemmPass::forward, up_width(), l.attention.kv_rank, share);
  turn(false);
}

void LatentCalls::up_projections() {
  if (s_.attention.query_rank > 0)
    calls_.linear("query up", GemmPass::forward, s_.attention.q, s_.attention.query_rank);
  calls_.linear("key value up", GemmPass::forward, up_width(), s_.attention.kv_rank);
  turn(false);
}

/// Queries' rotated parts turn in place; keys are put together of their two parts, values copied out.
void LatentCalls::turn(bool backward) {
  if (is_torchtitan_deepseek(s_))
    return backward ? torchtitan_heads_backward(s_, calls_) : torchtitan_heads_forward(s_, calls_);
  calls_.stream(
      "rope",
      s_.stream.tokens * (s_.attention.heads * s_.attention.rotated + s_.attention.k + s_.attention.values()),
      4);
}

void LatentCalls::backward_input() {
  const StageShape& l = s_;
  turn(true);
  calls_.linear("key value up", GemmPass::input_gradient, up_width(), l.attention.kv_rank);
  calls_.stream("norm backward", s_.stream.rows * l.attention.kv_rank, 10);
  calls_.rows_linear("key value down", GemmPass::input_gradient, l.attention.kv_rank + l.attention.rotated,
                     s_.stream.hidden, 1);
  if (l.attention.query_rank > 0) {
    calls_.linear("query up", GemmPass::input_gradient, s_.attention.q, l.attention.query_rank);
    calls_.stream("norm backward", s_.stream.rows * l.attention.query_rank, 10);
    calls_.rows_linear("query down", GemmPass::input_gradient, l.attention.query_rank, s_.stream.hidden, 1);
  } else {
    calls_.linear("query", GemmPass::input_gradient, s_.attention.q, s_.stream.hidden);
  }
  calls_.stream("add", s_.stream.rows * s_.stream.hidden, 6);
}

void LatentCalls::backward_weight() {
  const StageShape& l = s_;
  calls_.linear("key value up", GemmPass::weight_gradient, up_width(), l.attention.kv_rank);
  calls_.rows_linear("key value down", GemmPass::weight_gradient, l.attention.kv_rank + l.attention.rotated,
                     s_.stream.hidden, 1);
  if (l.attention.query_rank > 0) {
    calls_.linear("query up", GemmPass::weight_gradient, s_.attention.q, l.attention.query_rank);
    calls_.rows_linear("query down", GemmPass::weight_gradient, l.attention.query_rank, s_.stream.hidden, 1);
  } else {
    calls_.linear("query", GemmPass::weight_gradient, s_.attention.q, s_.stream.hidden);
  }
}

void LatentCalls::gather() {
  if (s_.sharding.sequence_parallel)
    calls_.collective(CallKind::all_gather, "tensor collectives forward", gathered(), s_.numerics.type);
}

void LatentCalls::scatter() {
  calls_.collective(s_.sharding.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce,
                    "tensor collectives backward", gathered(), s_.numerics.type);
}

}  // namespace plumbline
