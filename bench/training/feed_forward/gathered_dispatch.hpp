// Dispatch of gathered tokens (Megatron-LM's MoEAllGatherTokenDispatcher). Every rank of an expert group has
// all of its tokens and works on the rows of its own experts, or of its slices of them. Messages do not
// depend on the routing. bench/training/expert_parallel.md lists what is allocated when.
#pragma once

#include "bench/training/feed_forward/dispatch.hpp"
#include "bench/training/feed_forward/routing.hpp"

namespace plumbline::training {

/// True if the tokens of experts that are spread over ranks are gathered, not sent row by row.
inline bool gathers_tokens(const TrainingContext& context) {
  return spreads(context) && context.config.parallel.ep.token_dispatcher == TokenDispatcher::allgather;
}

/// Gathers the rows of each expert, the places of every choice's rows, and their weights. Afterwards `order`
/// of `dispatch` has the token of every row by expert, among those of the group. `places` (1, G·N) has the
/// row by expert of every choice of the group, or -1 where another rank has it.
void open_gathered_dispatch(const TrainingContext& context, const Routing& routing, Dispatch& dispatch);
/// The group's tokens, from those that this rank sends: (T, any) to (G·T, any).
Tensor gathered_tokens(const TrainingContext& context, const Matrix& tokens);
/// Overwrites `sums` (T, any) with the sums of the whole group's rows at this rank's tokens. `rows`: by
/// expert.
void sum_gathered_choices(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows,
                          const Matrix& sums);
/// Numbers of rows by expert, fp32, from the first row of `numbers` (any, N'), in the order of the routing:
/// (N, 1).
Tensor numbers_of_choices(const TrainingContext& context, const Dispatch& dispatch, Tensor numbers);

}  // namespace plumbline::training
