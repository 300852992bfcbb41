// Every combination of the searched keys that a model, a batch and a number of accelerators allow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/search/candidate.hpp"

namespace plumbline {

/// Part of the space that one thread works through at a time.
struct SearchRegion {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int micro_batch = 1;
};

/// The layouts of `config` (its world_size, model and batch), with context parallel sizes up to `most_context`.
std::vector<SearchRegion> search_regions(const RunConfig& config, int most_context = 1);

/// Calls `visit(keys)` for every candidate of a region that why_invalid does not refuse, in a fixed order.
/// `selective`: whether selective recomputation differs from none. Returns why one was refused, or empty.
std::string visit_region(const RunConfig& config, const SearchRegion& region, bool selective,
                         const std::function<void(const SearchKeys&)>& visit);

}  // namespace plumbline
