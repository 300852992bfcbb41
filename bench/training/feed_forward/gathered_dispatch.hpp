// The way of tokens to the ranks of their experts where these are gathered: every rank of an expert group has all tokens of
// it, and works on the rows of its own experts, or of its slices of them (Megatron-LM's MoEAllGatherTokenDispatcher). What is sent does not depend on the
// routing. bench/training/expert_parallel.md lists what is allocated when.
#pragma once

#include "bench/training/feed_forward/dispatch.hpp"
#include "bench/training/feed_forward/routing.hpp"

namespace plumbline::training {

/// Whether the tokens of experts that are spread over ranks are gathered, and not sent row by row.
inline bool gathers_tokens(const TrainingContext& context) {
  return spreads(context) && context.config.parallel.token_dispatcher == TokenDispatcher::allgather;
}

/// Gathers how many rows each expert gets, where those of every choice are, and their weights. Of what it leaves in `dispatch`
/// `order` has the token, among those of the group, of every row by expert, `places` (1, G·N) of every choice of the group
/// its row by expert, or -1 where another rank has it.
void open_gathered_dispatch(const TrainingContext& context, const Routing& routing, Dispatch& dispatch);
/// The group's tokens, from those that this rank sends: (T, any) to (G·T, any).
Tensor gathered_tokens(const TrainingContext& context, const Matrix& tokens);
/// Overwrites `sums` (T, any) with what the rows of the whole group add up to at this rank's tokens. `rows`: by expert.
void sum_gathered_choices(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows,
                          const Matrix& sums);
/// Numbers of rows by expert, fp32, the first of the rows of `numbers` (any, N'), where the routing has them: (N, 1).
Tensor numbers_of_choices(const TrainingContext& context, const Dispatch& dispatch, Tensor numbers);

}  // namespace plumbline::training
