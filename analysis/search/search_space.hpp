// Every combination of the searched keys that a model, a batch and a number of accelerators allow.
#pragma once

#include <algorithm>
#include <array>
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

/// Some of the four, without memory of their own: a search makes a list for every family.
struct ZeroStages {
  std::array<int, 4> list{};
  std::size_t count = 0;
  const int* begin() const { return list.data(); }
  const int* end() const { return list.data() + count; }
};

/// Candidates that differ in the size of recomputed groups, the ZeRO stage and the gradients' type alone.
struct SearchFamily {
  SearchKeys keys;  // of the first one: groups of one layer, the least ZeRO stage, fp32 gradients
  int groups = 1;   // recompute_layers from 1 to this
  std::array<bool, 4> has_zero{};  // by ZeRO stage
  bool halves = false;             // gradients in 16 bits too
  /// ZeRO stages, ascending.
  ZeroStages zeros() const {
    ZeroStages made;
    for (int zero = 0; zero < 4; ++zero)
      if (has_zero[static_cast<std::size_t>(zero)]) made.list[made.count++] = zero;
    return made;
  }
  std::size_t size_of_group() const {
    return static_cast<std::size_t>(std::ranges::count(has_zero, true)) * (halves ? 2 : 1);
  }
  std::size_t size() const { return static_cast<std::size_t>(groups) * size_of_group(); }
};

/// Calls `visit(keys)` for every candidate of a family with this size of recomputed groups, in a fixed order.
template <class Visit>
void visit_group(const SearchFamily& family, int group, const Visit& visit) {
  SearchKeys keys = family.keys;
  keys.recompute_layers = group;
  for (const int zero : family.zeros()) {
    keys.zero = zero;
    for (const bool half : {false, true}) {
      if (half && !family.halves) continue;
      keys.half_gradients = half;
      visit(keys);
    }
  }
}

/// Calls `visit(keys)` for every candidate of a family, smaller groups first.
template <class Visit>
void for_each_candidate(const SearchFamily& family, const Visit& visit) {
  for (int group = 1; group <= family.groups; ++group) visit_group(family, group, visit);
}

/// Calls `visit(family)` for the families of every candidate of a region that why_invalid does not refuse, in
/// a fixed order. `selective`: true if selective recomputation differs from none. Returns the reason of one
/// refusal, or empty.
std::string visit_region(const RunConfig& config, const SearchRegion& region, bool selective,
                         const std::function<void(const SearchFamily&)>& visit);

}  // namespace plumbline
