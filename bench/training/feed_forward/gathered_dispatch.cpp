#include "bench/training/feed_forward/gathered_dispatch.hpp"

#include <numeric>
#include <utility>

namespace plumbline::training {
namespace {

std::int64_t ranks_of_group(const TrainingContext& context) {
  return context.communicator.layout().expert_ranks();
}

void gather(const TrainingContext& context, const Matrix& from, const Matrix& to) {
  context.over_context_ranks(
      [&](Communicator& communicator) { communicator.all_gather(Group::expert, from, to); });
}
void sum_and_scatter(const TrainingContext& context, const Matrix& from, const Matrix& to) {
  context.over_context_ranks(
      [&](Communicator& communicator) { communicator.reduce_scatter(Group::expert, from, to); });
}

/// Rows of all experts, rank after rank.
std::vector<std::int32_t> gathered_counts(const TrainingContext& context,
                                          const std::vector<std::int64_t>& counts) {
  const auto experts = static_cast<std::int64_t>(counts.size());
  const std::int64_t ranks = ranks_of_group(context);
  std::vector<std::int32_t> mine(counts.begin(), counts.end());
  std::vector<std::int32_t> all;
  // Initial values, kept if nothing is really sent: all ranks of emulated devices route alike.
  for (std::int64_t rank = 0; rank < ranks; ++rank) all.insert(all.end(), mine.begin(), mine.end());
  gather(context, Matrix(mine.data(), 1, experts, DType::int32),
         Matrix(all.data(), 1, ranks * experts, DType::int32));
  return all;
}

/// Places of the group's choices among the rows of this rank's experts.
struct GatheredOrders {
  std::vector<std::int32_t> tokens;  // of every row by expert its token among the group's
  std::vector<std::int32_t> picks;   // its place among the rows of all ranks, rank after rank
};

/// `counts`: gathered_counts. Replaces `places`, every choice's row on its own rank, by those of its row
/// here, or -1.
GatheredOrders make_orders(const TrainingContext& context, const std::vector<std::int32_t>& counts,
                           const Dispatch& dispatch, std::vector<std::int32_t>& places) {
  const LayerWidths& shape = context.shape;
  const auto experts = static_cast<std::size_t>(shape.experts);
  const auto local = static_cast<std::size_t>(shape.local);
  const auto choices = static_cast<std::size_t>(shape.sent);
  const auto of_token = static_cast<std::size_t>(context.model().mixture.top_k);
  const std::size_t mine = local * static_cast<std::size_t>(expert_rank(context));
  std::vector<std::int32_t> next(local);  // row of every expert's next one
  for (std::size_t i = 1; i < local; ++i)
    next[i] = next[i - 1] + static_cast<std::int32_t>(dispatch.counts[i - 1]);
  GatheredOrders orders;
  orders.tokens.resize(static_cast<std::size_t>(dispatch.rows));
  orders.picks.resize(orders.tokens.size());
  std::vector<std::int32_t> here;  // of a rank's rows for this rank's experts the row by expert
  for (std::size_t rank = 0; rank * experts < counts.size(); ++rank) {
    const auto of_rank = counts.begin() + static_cast<std::ptrdiff_t>(rank * experts);
    const auto first = std::accumulate(of_rank, of_rank + static_cast<std::ptrdiff_t>(mine), std::size_t{0});
    here.clear();
    for (std::size_t i = 0; i < local; ++i) {
      for (std::int32_t row = 0; row < counts[rank * experts + mine + i]; ++row) here.push_back(next[i]++);
    }
    for (std::size_t choice = 0; choice < choices; ++choice) {
      std::int32_t& place = places[rank * choices + choice];
      const auto row = static_cast<std::size_t>(place);
      if (row < first || row - first >= here.size()) {
        place = -1;
        continue;
      }
      place = here[row - first];
      const auto at = static_cast<std::size_t>(place);
      orders.tokens[at] = static_cast<std::int32_t>((rank * choices + choice) / of_token);
      orders.picks[at] = static_cast<std::int32_t>(rank * choices + row);
    }
  }
  return orders;
}

}  // namespace

void open_gathered_dispatch(const TrainingContext& context, const Routing& routing, Dispatch& dispatch) {
  const std::int64_t all = ranks_of_group(context) * context.shape.sent;
  const auto numbers = [&](const char* holder, std::int64_t count) {
    return context.arena.allocate(context.kept, holder, 1, count, DType::int32);
  };
  const std::vector<std::int32_t> counts = gathered_counts(context, routing.counts);
  const auto experts = routing.counts.size();
  const auto local = static_cast<std::size_t>(context.shape.local);
  const std::size_t mine = local * static_cast<std::size_t>(expert_rank(context));
  dispatch.counts.assign(local, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t expert = i % experts;
    if (expert >= mine && expert < mine + local) dispatch.counts[expert - mine] += counts[i];
  }
  dispatch.rows = std::accumulate(dispatch.counts.begin(), dispatch.counts.end(), std::int64_t{0});

  dispatch.places = numbers("layer places of gathered choices", all);
  gather(context, routing.places, dispatch.places);
  std::vector<std::int32_t> places(static_cast<std::size_t>(all));
  context.operators.download(dispatch.places, places.data());
  const GatheredOrders orders = make_orders(context, counts, dispatch, places);
  context.operators.upload(places.data(), dispatch.places);
  dispatch.order = numbers("layer tokens of rows", dispatch.rows);
  dispatch.picks = numbers("layer picks of rows", dispatch.rows);
  if (dispatch.rows > 0) {
    context.operators.upload(orders.tokens.data(), dispatch.order);
    context.operators.upload(orders.picks.data(), dispatch.picks);
  }
  const Tensor weights = context.make_fp32(kPassing, "weights of gathered choices", all, 1);
  gather(context, routing.weights, weights);
  dispatch.weights = context.make_fp32(context.kept, "layer weights of rows", dispatch.rows, 1);
  if (dispatch.rows > 0) context.operators.embedding_forward(dispatch.picks, weights, 0, dispatch.weights);
}

Tensor gathered_tokens(const TrainingContext& context, const Matrix& tokens) {
  Tensor all = context.arena.allocate(kPassing, "tokens of the expert group",
                                      ranks_of_group(context) * tokens.rows, tokens.cols, tokens.dtype);
  gather(context, tokens, all);
  return all;
}

void sum_gathered_choices(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows,
                          const Matrix& sums) {
  const Tensor all = context.arena.allocate(kPassing, "sums at tokens of the expert group",
                                            ranks_of_group(context) * sums.rows, sums.cols, sums.dtype);
  context.operators.combine_rows(rows, dispatch.places, false, all);
  sum_and_scatter(context, all, sums);
}

Tensor numbers_of_choices(const TrainingContext& context, const Dispatch& dispatch, Tensor numbers) {
  const Tensor all = context.make_fp32(kPassing, "numbers of gathered choices",
                                       ranks_of_group(context) * context.shape.sent, 1);
  context.operators.fill(all, 0);
  const Matrix row = numbers.matrix().row_range(0, 1);
  if (row.cols > 0) context.operators.embedding_backward(dispatch.picks, row.reshaped(row.cols, 1), 0, all);
  numbers.reset();
  Tensor own = context.make_fp32(kPassing, "gradient of expert weights", context.shape.sent, 1);
  sum_and_scatter(context, all, own);
  return own;
}

}  // namespace plumbline::training
