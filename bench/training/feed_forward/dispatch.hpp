// Dispatch of rows to the ranks of their experts and back, if a layer's experts are spread over ranks. Counts
// first, then rows, by all-to-all. bench/training/expert_parallel.md lists what is allocated when.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Kept from the forward to the backward. N rows of the tokens that this rank sends are sent in the order of
/// experts, those of a rank's experts once for every slice of these: N·S. N' rows are received, N' being any
/// number from 0 on.
struct Dispatch {
  std::vector<std::int64_t> sent;      // rows to every rank of the expert group
  std::vector<std::int64_t> received;  // rows from every rank
  std::vector<std::int64_t> counts;    // rows of each of this rank's experts
  std::int64_t rows = 0;               // N'
  Tensor order;   // (1, N') int32: of every row by expert its place among those that came
  Tensor places;  // (1, N') int32: of every row that came its place by expert
  Tensor picks;   // (1, N') int32: gathered_dispatch.hpp alone
  Tensor
      returns;  // (1, N·S) int32: of every choice the places of its rows among the returned ones; S = 1: the
                // routing's
  Tensor weights;  // (1, N') fp32: of every row by expert

  /// Frees the parts that weight gradients do not read.
  void drop_orders() {
    order.reset();
    places.reset();
    picks.reset();
    returns.reset();
    weights.reset();
  }
};

/// True if experts are spread over ranks.
inline bool spreads(const TrainingContext& context) {
  return context.shape.spread;
}

/// Index of this rank's part of a layer's experts.
inline std::int64_t expert_rank(const TrainingContext& context) {
  const Communicator& communicator = context.communicator;
  return communicator.layout().expert_place(communicator.layout().coordinates(communicator.rank())).part;
}

/// `put(first, to, rows)`: the rows from `first` on by expert are those from `to` on of the sent ones.
/// `counts`: rows of each expert.
template <class Put>
void for_each_slice(const TrainingContext& context, const std::vector<std::int64_t>& counts, const Put& put) {
  if (context.shape.slices == 1)
    return put(std::int64_t{0}, std::int64_t{0},
               std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const auto local = static_cast<std::size_t>(context.shape.local);
  std::int64_t first = 0;
  std::int64_t to = 0;
  for (std::size_t part = 0; part < counts.size(); part += local) {
    std::int64_t rows = 0;
    for (std::size_t i = part; i < part + local; ++i) rows += counts[i];
    for (std::int64_t slice = 0; slice < context.shape.slices; ++slice, to += rows) put(first, to, rows);
    first += rows;
  }
}

/// Exchanges the rows of each expert, `counts` of this rank's tokens, and their weights, (1, N) by expert.
/// `places`: (1, N), the row by expert of every choice.
void open_dispatch(const TrainingContext& context, const std::vector<std::int64_t>& counts,
                   const Matrix& places, const Matrix& weights, Dispatch& dispatch);
/// Rows of the hidden size take their time: in an overlapped pair the other action computes meanwhile.
enum class Exchange : std::uint8_t { awaited, hidden };
/// Other computation of this action while rows of the hidden size are in transit; empty: none.
using Meanwhile = std::function<void()>;

/// Rows received for `rows` (N·S, any), by rank.
Tensor exchanged(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows, Exchange way,
                 const Meanwhile& meanwhile = {});
/// The same by expert, in a tensor of `category`. `received`: received rows or gathered tokens.
Tensor by_expert(const TrainingContext& context, const Dispatch& dispatch, Tensor received, Category category,
                 const char* holder);
/// Rows by expert (N', any) by rank; then where they came from: (N·S, any).
Tensor by_rank(const TrainingContext& context, const Dispatch& dispatch, const Matrix& rows);
Tensor returned(const TrainingContext& context, const Dispatch& dispatch, Tensor leaving, Exchange way,
                const Meanwhile& meanwhile = {});

}  // namespace plumbline::training
