// Every legal configuration of a model on N accelerators: the best, the Pareto front, and why nothing fits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/search/evaluator.hpp"
#include "analysis/search/search_space.hpp"

namespace plumbline {

struct SearchRequest {
  /// Fixed part of the search: world_size accelerators, the model, the batch, the memory budget.
  RunConfig config;
  int top = 10;
  int threads = 1;
  SearchLimits limits;
  /// False for candidates to leave out; empty: none. Called from several threads.
  std::function<bool(const SearchKeys&)> wanted{};
  /// True from the moment at which the search ends with what it has found; empty: never. Called often, from
  /// the thread that searches.
  std::function<bool()> stopped{};
  /// Seconds after which it ends with what it has found: half of them for a look at all layouts; 0: never.
  double deadline_s = 0;
  /// Told of a candidate that fits and is faster than those it was told of before; empty: nobody. Called from
  /// the thread that searches.
  std::function<void(const Candidate&)> found{};
};

struct SearchResult {
  std::vector<Candidate> best;   // fits the budget, fastest first
  std::vector<Candidate> front;  // no other is both faster and smaller; smallest memory first, budget ignored
  std::uint64_t configurations = 0;  // all legal ones
  std::uint64_t simulated = 0;       // the rest cannot be among the best or on the front, by their bounds
  std::string refused;               // why one configuration that is none was refused; empty: none was
  bool complete = true;              // false: stopped; figures and lists are of what was seen until then
  Seconds at_least{};                // then: no step is shorter; 0: not all layouts were looked at
};

/// The result of predicting every candidate; of those with equal times and bytes the first in the order of
/// the search. Bounds of many at once rule out most, bounds of each one most others. Calls
/// `progress(done, all)` now and then from one thread: half of it is a look at all layouts, half the proof. A
/// stopped search still predicts one candidate that fits, if it has seen any. Throws InputError when the
/// request allows no layout at all, with the necessary change.
SearchResult search(const SearchRequest& request, const HardwareProfile& hardware, const StepFor& make,
                    const std::function<void(int, int)>& progress = {});

}  // namespace plumbline
