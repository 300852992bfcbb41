// Every combination of the searched keys that a model, a batch and a number of accelerators allow.
#pragma once

#include <cstdint>
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
  int expert = 1;
  int expert_tensor = 0;  // 0: as tensor
  TokenDispatcher dispatcher = TokenDispatcher::automatic;
};

/// Limits of a search where more ranks of one kind rarely help.
struct SearchLimits {
  int context = 0;  // largest context parallel size, with every cp_comm_type; 0: context_for_sequence()
  int expert = 0;   // largest expert parallel size; 0: the number of experts
};

/// Largest context parallel size that a sequence asks for: every rank keeps at least 8192 tokens; at most 32.
int context_for_sequence(std::int64_t seq_length);

/// The layouts of `config` (its world_size, model and batch). With experts spread over ranks also the expert
/// tensor sizes that divide the tensor size, and the software's dispatchers unless `config` names one.
std::vector<SearchRegion> search_regions(const RunConfig& config, const SearchLimits& limits = {});

/// Calls `visit(keys)` for every candidate of a region that why_invalid does not refuse, in a fixed order.
/// `selective`: true if selective recomputation differs from none. Returns the reason of one refusal, or
/// empty.
std::string visit_region(const RunConfig& config, const SearchRegion& region, bool selective,
                         const std::function<void(const SearchKeys&)>& visit);

}  // namespace plumbline
