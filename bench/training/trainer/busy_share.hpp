// Share of the time in compute actions spent waiting for other ranks.
#pragma once

#include <vector>

#include "core/trace/trace.hpp"

namespace plumbline::training {

/// One rank's step, or the mean of ranks. Parts of `busy` lie inside compute actions.
struct BusyTime {
  Seconds busy;                          // in compute actions
  Seconds tensor_communication;          // of it, in collectives over the tensor group
  VocabularySeconds vocabulary_waits{};  // of it, waiting for collectives of a split vocabulary
  Seconds data_communication{};          // of it, waiting for gathers and reductions over the data group
  Seconds host_waits{};                  // of it, waiting for copies to and from the host
};

/// The parts as shares of the busy time of all ranks together, times `busy`: their means when `busy` is the
/// mean of the same ranks. Seconds of all ranks cannot be subtracted from the busy time of the few traced
/// ranks: under load some wait longer than others compute.
BusyTime mean_shares(const std::vector<BusyTime>& ranks, Seconds busy);

/// Busy time of the ranks of a trace, their mean.
Seconds mean_busy(const Trace& trace);

}  // namespace plumbline::training
