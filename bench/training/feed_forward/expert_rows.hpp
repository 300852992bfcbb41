// The rows of a mixture's experts: from their tokens, back to these, and added up, wherever the experts are.
// bench/training/expert_parallel.md lists what is allocated when.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// `compute` if the shared expert's products run alongside the exchanges of rows (bench/training/overlap.md), else nothing.
Meanwhile if_hidden(const TrainingContext& context, Meanwhile compute);

/// Rows of the stream and what they are gathered to over the tensor ranks: whose tokens this rank sends.
const Matrix& senders(const TrainingContext& context, const Matrix& own, const Matrix& all);

/// Of the experts on this rank: rows of each, of all, and the rows' weights.
const std::vector<std::int64_t>& counts_of(const TrainingContext& context, const MixtureState& state);
std::int64_t rows_of(const TrainingContext& context, const MixtureState& state);
const Tensor& weights_of(const TrainingContext& context, const MixtureState& state);

/// Tells the ranks of a layer's experts what goes where.
void open_exchange(const TrainingContext& context, MixtureState& state);

/// The rows of this rank's experts, (N, h) or (N', h), from those of the tokens that it sends. `category`: of the latter;
/// `meanwhile`: while they are under way.
Tensor sent_to_experts(const TrainingContext& context, const MixtureState& state, const Matrix& x,
                       Category category = kPassing, const Meanwhile& meanwhile = {});

/// The weights' gradient where their tokens are, from `products`, of which the first row counts: by row, or, where experts are
/// cut on their own, of every choice of the micro-batch.
Tensor weights_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor products);

/// A product of the shared expert into a matrix, or onto it.
using SharedProduct = std::function<void(const Matrix& to, bool accumulate)>;

/// Overwrites `sums` with what becomes of the experts' rows, which come back for that, and with the product of the shared
/// expert, over the tensor ranks too. `after` the product whatever else of that expert is to be computed while rows are under way.
void add_up_choices(const TrainingContext& context, Tensor rows, const MixtureState& state,
                    const Matrix& sums, const SharedProduct& shared_product, const Meanwhile& after = {});

}  // namespace plumbline::training
