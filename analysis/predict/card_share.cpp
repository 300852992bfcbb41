#include "analysis/predict/card_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/config/context_ring.hpp"

namespace plumbline {
namespace {

// Thread blocks of a communicator of backend cuda (core/backends/nccl/block_budget.hpp): of a message channel
// and direction, of a collective of a split vocabulary, of one alongside computation, and of one that is
// waited for, of which one runs at a time.
constexpr int kOfMessage = 2;
constexpr int kOfVocabulary = 8;
constexpr int kAlongside = 16;
constexpr int kAwaited = 32;

/// Channels to and from a middle stage: with each of its neighbours one per direction, which are one rank
/// with two stages.
int stage_ends(int pipeline) {
  return pipeline == 1 ? 0 : pipeline == 2 ? 2 : 4;
}

/// From one neighbour and to the other; and what closes the rings of halves, quarters and so on, on their
/// first and last ranks.
int ring_ends(const RunConfig& config) {
  const int ring = context_ring(config.parallel);
  if (ring == 1) return 0;
  int closing = 0;
  if (config.batch.dynamic_context_parallel) {
    for (int size = 2; size < config.parallel.context; size *= 2) ++closing;
  }
  return 2 + closing;
}

}  // namespace

std::optional<std::string> why_too_few_multiprocessors(const RunConfig& config,
                                                       const HardwareProfile& hardware) {
  if (hardware.accelerator() == nullptr || config.generation.on()) return std::nullopt;
  const auto processors = static_cast<int>(hardware.accelerator()->constants.device.processors);
  const Layout layout = config.layout();
  const int middle = layout.rank_of({0, 0, std::min(1, layout.pipeline - 1)});
  std::vector<GroupExtent> alongside;
  int between = 0;
  int vocabulary = 0;
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const GroupExtent extent = layout.extent(group, middle);
    if (extent.size() < 2) continue;
    const bool reduces = group == Group::data || group == Group::zero_param ||
                         group == Group::optimizer_instance || group == Group::expert_data;
    if (group >= Group::vocab_hidden) ++vocabulary;
    if (group == Group::between_instances) ++between;
    if (reduces && std::find(alongside.begin(), alongside.end(), extent) == alongside.end())
      alongside.push_back(extent);
  }
  // Those of a run of data ranks alone are the world's, too.
  const bool waits = layout.world() > 1 && [&] {
    for (int i = 0; i < static_cast<int>(Group::vocab_hidden); ++i) {
      const auto group = static_cast<Group>(i);
      const GroupExtent extent = layout.extent(group, middle);
      if (group == Group::between_instances || extent.size() < 2) continue;
      if (std::find(alongside.begin(), alongside.end(), extent) == alongside.end()) return true;
    }
    return false;
  }();
  const int channels = stage_ends(layout.pipeline) + ring_ends(config);
  const int held = channels * kOfMessage + vocabulary * kOfVocabulary;
  const int most =
      held + (static_cast<int>(alongside.size()) + between) * kAlongside + (waits ? kAwaited : 0);
  if (most <= processors && 2 * (processors - held) >= processors) return std::nullopt;
  return fmt::format(
      "hardware: found {} with {} multiprocessors, expected at least {} for {} message channels, {} "
      "collectives "
      "of a split vocabulary and those of gradients; use vocab_parallel none",
      hardware.accelerator()->name, processors, std::max(most, 2 * held), channels, vocabulary);
}

}  // namespace plumbline
