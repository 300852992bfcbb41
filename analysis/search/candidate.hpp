// One point of a search: the varied keys, and their prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/predict/fit.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

/// The keys that a search varies; all others stay as the request has them.
struct SearchKeys {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int micro_batch = 1;
  int chunks = 1;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;  // the only one that search tries
  int recompute_layers = 1;
  int zero = 0;
  std::uint8_t schedule = 0;  // index into search_schedules()
  Recompute recompute = Recompute::none;
  RecomputeModules recomputed = kCoreAttention;
  VocabPasses vocabulary = VocabPasses::none;
  CpCommType cp_comm_type = CpCommType::p2p;  // of a context above 1
  int head_ranks = 1;                         // of a2a+p2p: ranks that exchange heads
  int expert = 1;
  int expert_tensor = 0;  // 0: as tensor
  TokenDispatcher dispatcher = TokenDispatcher::automatic;
  bool sequence_parallel = false;
  bool balanced = false;
  bool half_gradients = false;
};

/// The sizes of a2a+p2p; none with another cp_comm_type.
HierarchicalContext hierarchical_of(const SearchKeys& keys);
/// Puts the keys into a configuration.
void set_keys(const SearchKeys& keys, RunConfig& config);
/// The keys that a configuration has. Throws InputError for a schedule or a distribution of layers that no
/// search tries.
SearchKeys keys_of(const RunConfig& config);

/// The schedules that are tried (ScheduleTraits::searched), the default first: on one rank only that one.
const std::vector<ScheduleTraits>& search_schedules();
const ScheduleTraits& search_traits(std::size_t schedule);

struct Candidate {
  SearchKeys keys;
  Bytes peak;
  StepTime time;  // as predict() gives it
  Fit fit;        // likewise
  Bytes device;   // of the fullest rank, without the allocator's margin; 0: the profile does not know
  Throughput throughput{};
};

}  // namespace plumbline
