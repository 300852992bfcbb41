// The rows of MoE experts: from their tokens, back to these, and added up, with any placement of experts.
// bench/training/expert_parallel.md lists what is allocated when.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// `compute` if the shared expert's products overlap with the exchanges of rows (bench/training/overlap.md),
/// else nothing.
Meanwhile if_hidden(const TrainingContext& context, Meanwhile compute);

/// Rows of the stream or those gathered over the tensor ranks: the tokens that this rank sends.
const Matrix& senders(const TrainingContext& context, const Matrix& own, const Matrix& all);

/// Experts on this rank: rows of each, of all, and the rows' weights.
const std::vector<std::int64_t>& counts_of(const TrainingContext& context, const MixtureState& state);
std::int64_t rows_of(const TrainingContext& context, const MixtureState& state);
const Tensor& weights_of(const TrainingContext& context, const MixtureState& state);

/// Exchanges the row counts with the ranks of a layer's experts.
void open_exchange(const TrainingContext& context, MixtureState& state);

/// The rows of this rank's experts, (N, h) or (N', h), from those of the tokens that it sends. `category`: of
/// the latter; `meanwhile`: work while they are in transit.
Tensor sent_to_experts(const TrainingContext& context, const MixtureState& state, const Matrix& x,
                       Category category = kPassing, const Meanwhile& meanwhile = {});

/// Gradient of the weights at the ranks of their tokens, from the first row of `products`: by row, or, if
/// experts have their own sharding, of every choice of the micro-batch.
Tensor weights_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor products);

/// A product of the shared expert into a matrix, or onto it.
using SharedProduct = std::function<void(const Matrix& to, bool accumulate)>;

/// Overwrites `sums` with the combined results of the experts' rows, which are sent back, and with the
/// product of the shared expert, over the tensor ranks too. `after`: further work of that expert after the
/// product, while rows are in transit.
void add_up_choices(const TrainingContext& context, Tensor rows, const MixtureState& state,
                    const Matrix& sums, const SharedProduct& shared_product, const Meanwhile& after = {});

}  // namespace plumbline::training
