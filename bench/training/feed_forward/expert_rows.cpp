#include "bench/training/feed_forward/expert_rows.hpp"

#include <utility>

#include "bench/training/feed_forward/gathered_dispatch.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"

namespace plumbline::training {
namespace {

/// Rows of the experts at the ranks of their tokens; with gathered tokens sums are sent back.
Tensor back_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor rows,
                      const Meanwhile& meanwhile = {}) {
  if (!spreads(context) || gathers_tokens(context)) return rows;
  Tensor leaving = by_rank(context, state.dispatch, rows);
  rows.reset();
  return returned(context, state.dispatch, std::move(leaving), Exchange::hidden, meanwhile);
}

/// Places of the returned rows of every choice of the tokens that this rank sends, in order.
const Matrix returns_of(const MixtureState& state) {
  return state.dispatch.returns ? state.dispatch.returns : state.routing.places;
}

/// Overwrites `sums` with the sums of every token's rows.
void add_up_rows(const TrainingContext& context, const Matrix& rows, const MixtureState& state,
                 const Matrix& sums) {
  if (gathers_tokens(context)) return sum_gathered_choices(context, state.dispatch, rows, sums);
  context.operators.combine_rows(rows, returns_of(state), false, sums);
}

/// For experts with their own sharding: only a shared expert's product is summed over tensor ranks,
/// separately.
void add_up_apart(const TrainingContext& context, Tensor rows, const MixtureState& state, const Matrix& sums,
                  const SharedProduct& shared_product, const Meanwhile& after) {
  Tensor shared;
  const Meanwhile sum_shared = [&] {
    if (context.shape.shared == 0) return;
    shared = context.make_stream(kPassing, "results of the shared expert");
    context.sum_over_tensor_ranks(shared, [&](const Matrix& to) { shared_product(to, false); });
    if (after) after();
  };
  const Meanwhile meanwhile = if_hidden(context, sum_shared);
  rows = back_at_tokens(context, state, std::move(rows), meanwhile);
  add_up_rows(context, rows, state, sums);
  if (!meanwhile) sum_shared();
  if (shared) context.operators.add(shared, sums, {}, sums);
}

}  // namespace

Meanwhile if_hidden(const TrainingContext& context, Meanwhile compute) {
  return hides_shared_expert(context) ? std::move(compute) : Meanwhile();
}

const Matrix& senders(const TrainingContext& context, const Matrix& own, const Matrix& all) {
  return context.shape.folded ? own : all;
}

const std::vector<std::int64_t>& counts_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.counts : state.routing.counts;
}
std::int64_t rows_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.rows : state.routing.rows();
}
const Tensor& weights_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.weights : state.routing.weights;
}

void open_exchange(const TrainingContext& context, MixtureState& state) {
  if (gathers_tokens(context)) return open_gathered_dispatch(context, state.routing, state.dispatch);
  if (!spreads(context)) return;
  open_dispatch(context, state.routing.counts, state.routing.places, state.routing.weights, state.dispatch);
}

Tensor sent_to_experts(const TrainingContext& context, const MixtureState& state, const Matrix& x,
                       Category category, const Meanwhile& meanwhile) {
  constexpr const char* kHolder = "layer rows of experts";
  const LayerWidths& shape = context.shape;
  if (gathers_tokens(context))
    return by_expert(context, state.dispatch, gathered_tokens(context, x), category, kHolder);
  Tensor rows = context.make(kPassing, "rows of experts", shape.slices * state.routing.rows(), shape.hidden);
  for_each_slice(context, state.routing.counts, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
    if (count == 0) return;
    context.operators.embedding_forward(state.routing.tokens.matrix().columns(first, count), x, 0,
                                        rows.matrix().row_range(to, count));
  });
  if (!spreads(context)) return rows;
  Tensor received = exchanged(context, state.dispatch, rows, Exchange::hidden, meanwhile);
  rows.reset();
  return by_expert(context, state.dispatch, std::move(received), category, kHolder);
}

Tensor weights_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor products) {
  if (!spreads(context)) return products;
  const LayerWidths& shape = context.shape;
  Tensor numbers;
  if (gathers_tokens(context)) {
    numbers = numbers_of_choices(context, state.dispatch, std::move(products));
  } else {
    const Matrix row = products.matrix().row_range(0, 1);
    Tensor leaving = by_rank(context, state.dispatch, row.reshaped(row.cols, 1));
    products.reset();
    numbers = returned(context, state.dispatch, std::move(leaving), Exchange::awaited);
  }
  if (!shape.folded) return numbers;
  Tensor own = context.make_fp32(kPassing, "gradient of expert weights", shape.sent, 1);
  context.operators.combine_rows(
      numbers, gathers_tokens(context) ? state.routing.places.matrix() : returns_of(state), false, own);
  numbers.reset();
  if (shape.sent == shape.choices) return own;
  Tensor all = context.make_fp32(kPassing, "gradient of expert weights", shape.choices, 1);
  context.over_context_ranks(
      [&](Communicator& communicator) { communicator.all_gather(Group::tensor, own, all); });
  return all;
}

void add_up_choices(const TrainingContext& context, Tensor rows, const MixtureState& state,
                    const Matrix& sums, const SharedProduct& shared_product, const Meanwhile& after) {
  if (context.shape.folded && context.tensor_size() > 1)
    return add_up_apart(context, std::move(rows), state, sums, shared_product, after);
  const bool hidden = hides_shared_expert(context);
  if (!hidden) rows = back_at_tokens(context, state, std::move(rows));
  context.sum_over_tensor_ranks(sums, [&](const Matrix& to) {
    if (gathers_tokens(context)) {
      sum_gathered_choices(context, state.dispatch, rows, to);
      return shared_product(to, true);
    }
    // The shared expert's first: that its product can be made before rows are back.
    const auto first = [&] {
      shared_product(to, false);
      if (after) after();
    };
    if (hidden) {
      rows = back_at_tokens(context, state, std::move(rows), first);
    } else {
      first();
    }
    context.operators.combine_rows(rows, returns_of(state), context.shape.shared > 0, to);
  });
}

}  // namespace plumbline::training
