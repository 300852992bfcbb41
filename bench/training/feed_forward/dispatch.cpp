#include "bench/training/feed_forward/dispatch.hpp"

#include <numeric>
#include <utility>

namespace plumbline::training {
namespace {

/// Converts rows per piece to elements, with `cols` per row.
std::vector<std::int64_t> in_elements(std::vector<std::int64_t> rows, std::int64_t cols) {
  for (std::int64_t& piece : rows) piece *= cols;
  return rows;
}

void exchange(const TrainingContext& context, Exchange way, const Matrix& from,
              const std::vector<std::int64_t>& sent, const Matrix& to,
              const std::vector<std::int64_t>& received, const Meanwhile& meanwhile) {
  const std::vector<std::int64_t> leaving = in_elements(sent, from.cols);
  const std::vector<std::int64_t> coming = in_elements(received, to.cols);
  const auto awaited = [&](Communicator& communicator) {
    communicator.all_to_all(Group::expert, from, leaving, to, coming);
  };
  if (way == Exchange::awaited) return context.over_context_ranks(awaited);
  const auto started = [&](Communicator& communicator) {
    return communicator.start_all_to_all(Group::expert, from, leaving, to, coming);
  };
  if (meanwhile) return context.alongside(started, meanwhile);
  context.while_another_computes(started, awaited);
}

/// Rows of the experts of every rank of the group, rank after rank.
std::vector<std::int32_t> counts_of_ranks(const TrainingContext& context,
                                          const std::vector<std::int64_t>& counts) {
  const std::int64_t local = context.shape.local;
  std::vector<std::int32_t> sent;
  for (auto part = counts.begin(); part != counts.end(); part += local) {
    for (std::int64_t slice = 0; slice < context.shape.slices; ++slice)
      sent.insert(sent.end(), part, part + local);
  }
  return sent;
}

/// Rows from every rank for each of this rank's experts, rank after rank. `sent`: counts_of_ranks.
std::vector<std::int32_t> counts_by_rank(const TrainingContext& context, std::vector<std::int32_t>& sent) {
  const std::int64_t local = context.shape.local;
  const std::int64_t mine = expert_rank(context) * context.shape.slices;
  const auto all = static_cast<std::int64_t>(sent.size());
  std::vector<std::int32_t> received(sent.size());
  // Initial values, kept if nothing is really sent: all ranks of emulated devices route alike.
  for (std::int64_t i = 0; i < all; ++i)
    received[static_cast<std::size_t>(i)] = sent[static_cast<std::size_t>(mine * local + i % local)];
  context.over_context_ranks([&](Communicator& communicator) {
    communicator.all_to_all(Group::expert, Matrix(sent.data(), 1, all, DType::int32),
                            Matrix(received.data(), 1, all, DType::int32));
  });
  return received;
}

/// Records the places of every choice's rows among the returned rows.
void make_returns(const TrainingContext& context, const std::vector<std::int64_t>& counts,
                  const Matrix& places, Dispatch& dispatch) {
  const std::int64_t slices = context.shape.slices;
  if (slices == 1) return;
  std::vector<std::int32_t> places_of_choices(static_cast<std::size_t>(context.shape.sent));
  context.operators.download(places, places_of_choices.data());
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<std::vector<std::int32_t>> places_of_rows(static_cast<std::size_t>(all));
  for_each_slice(context, counts, [&](std::int64_t first, std::int64_t to, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i)
      places_of_rows[static_cast<std::size_t>(first + i)].push_back(static_cast<std::int32_t>(to + i));
  });
  std::vector<std::int32_t> returns;
  for (const std::int32_t row : places_of_choices) {
    const std::vector<std::int32_t>& of_row = places_of_rows[static_cast<std::size_t>(row)];
    returns.insert(returns.end(), of_row.begin(), of_row.end());
  }
  dispatch.returns = context.arena.allocate(context.kept, "layer returns of rows", 1,
                                            slices * context.shape.sent, DType::int32);
  context.operators.upload(returns.data(), dispatch.returns);
}

/// Both directions between the order of experts and that of ranks. `came`: counts_by_rank.
void make_orders(const TrainingContext& context, const std::vector<std::int32_t>& came, Dispatch& dispatch) {
  const auto local = dispatch.counts.size();
  std::vector<std::int32_t> order(static_cast<std::size_t>(dispatch.rows));
  std::vector<std::int32_t> places(order.size());
  std::vector<std::int64_t> next(local);  // row of every expert's next one
  for (std::size_t i = 1; i < local; ++i) next[i] = next[i - 1] + dispatch.counts[i - 1];
  std::size_t place = 0;
  for (std::size_t i = 0; i < came.size(); ++i) {
    for (std::int32_t row = 0; row < came[i]; ++row, ++place) {
      const std::int64_t at = next[i % local]++;
      places[place] = static_cast<std::int32_t>(at);
      order[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(place);
    }
  }
  const auto numbers = [&](const char* holder) {
    return context.arena.allocate(context.kept, holder, 1, dispatch.rows, DType::int32);
  };
  dispatch.order = numbers("layer order of rows");
  dispatch.places = numbers("layer places of rows");
  if (dispatch.rows == 0) return;
  context.operators.upload(order.data(), dispatch.order);
  context.operators.upload(places.data(), dispatch.places);
}

}  // namespace

void open_dispatch(const TrainingContext& context, const std::vector<std::int64_t>& counts,
                   const Matrix& places, const Matrix& weights, Dispatch& dispatch) {
  const auto local = static_cast<std::size_t>(context.shape.local);
  std::vector<std::int32_t> sent = counts_of_ranks(context, counts);
  const std::vector<std::int32_t> came = counts_by_rank(context, sent);
  const std::size_t ranks = sent.size() / local;
  dispatch.sent.assign(ranks, 0);
  dispatch.received.assign(ranks, 0);
  dispatch.counts.assign(local, 0);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    dispatch.sent[i / local] += sent[i];
    dispatch.received[i / local] += came[i];
    dispatch.counts[i % local] += came[i];
  }
  dispatch.rows = std::accumulate(dispatch.counts.begin(), dispatch.counts.end(), std::int64_t{0});
  make_orders(context, came, dispatch);
  make_returns(context, counts, places, dispatch);
  const Matrix by_row = weights.reshaped(weights.cols, 1);
  Tensor repeated;
  if (context.shape.slices > 1) {
    repeated = context.make_fp32(kPassing, "weights of rows", context.shape.slices * by_row.rows, 1);
    for_each_slice(context, counts, [&](std::int64_t first, std::int64_t to, std::int64_t rows) {
      if (rows > 0)
        context.operators.copy(by_row.row_range(first, rows), repeated.matrix().row_range(to, rows));
    });
  }
  Tensor received = exchanged(context, dispatch, repeated ? repeated.matrix() : by_row, Exchange::awaited);
  repeated.reset();
  dispatch.weights = by_expert(context, dispatch, std::move(received), context.kept, "layer weights of rows");
}

Tensor exchanged(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows, Exchange way,
                 const Meanwhile& meanwhile) {
  Tensor received =
      context.arena.allocate(kPassing, "rows from other ranks", dispatch.rows, rows.cols, rows.dtype);
  exchange(context, way, rows, dispatch.sent, received, dispatch.received, meanwhile);
  return received;
}

Tensor by_expert(const TrainingContext& context, const Dispatch& dispatch, Tensor received, Category category,
                 const char* holder) {
  const Matrix from = received;
  Tensor rows = context.arena.allocate(category, holder, dispatch.rows, from.cols, from.dtype);
  if (dispatch.rows > 0) context.operators.embedding_forward(dispatch.order, from, 0, rows);
  received.reset();
  return rows;
}

Tensor by_rank(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows) {
  Tensor leaving = context.arena.allocate(kPassing, "rows to other ranks", rows.rows, rows.cols, rows.dtype);
  if (rows.rows > 0) context.operators.embedding_forward(dispatch.places, rows, 0, leaving);
  return leaving;
}

Tensor returned(const TrainingContext& context, const Dispatch& dispatch, Tensor leaving, Exchange way,
                const Meanwhile& meanwhile) {
  const Matrix from = leaving;
  const std::int64_t rows = std::accumulate(dispatch.sent.begin(), dispatch.sent.end(), std::int64_t{0});
  Tensor back = context.arena.allocate(kPassing, "rows of experts", rows, from.cols, from.dtype);
  exchange(context, way, from, dispatch.received, back, dispatch.sent, meanwhile);
  leaving.reset();
  return back;
}

}  // namespace plumbline::training
