#include "core/backends/nccl/block_budget.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {

NcclLanes lanes_of(const Layout& layout, int rank, int channels) {
  constexpr Group kStarted[] = {Group::data, Group::zero_param, Group::optimizer_instance,
                                Group::between_instances, Group::expert_data};
  NcclLanes lanes;
  lanes.messages = channels;
  // Groups of the same members share a communicator, except those that keep an order of their own.
  std::set<std::vector<int>> started;
  for (const Group group : kStarted) {
    std::vector<int> members = layout.members(group, rank);
    if (members.size() < 2) continue;
    if (group == Group::between_instances) {
      ++lanes.started;
    } else {
      started.insert(std::move(members));
    }
  }
  lanes.started += static_cast<int>(started.size());
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const std::vector<int> members = layout.members(group, rank);
    if (members.size() < 2) continue;
    if (group >= Group::vocab_hidden) {
      ++lanes.vocabulary;
    } else if (group != Group::between_instances) {
      lanes.awaited = lanes.awaited || !started.contains(members);
    }
  }
  return lanes;
}

int blocks_alongside(const NcclLanes& lanes, const NcclBlocks& blocks) {
  return lanes.messages * blocks.per_message + lanes.vocabulary * blocks.per_vocabulary;
}

int most_blocks_at_once(const NcclLanes& lanes, const NcclBlocks& blocks) {
  return blocks_alongside(lanes, blocks) + lanes.started * blocks.per_started +
         (lanes.awaited ? blocks.per_awaited : 0);
}

int multiprocessors_for_computation(const NcclLanes& lanes, const NcclBlocks& blocks, int multiprocessors) {
  const int most = most_blocks_at_once(lanes, blocks);
  const int left = multiprocessors - blocks_alongside(lanes, blocks);
  if (most <= multiprocessors && 2 * left >= multiprocessors) return left;
  throw InputError(fmt::format(
      "NCCL: {} message channels with {} blocks each, {} collectives of a split vocabulary with {}, "
      "{} collectives alongside with {} and one that is waited for with {} are {} blocks, but the "
      "GPU has {} multiprocessors, half of which are for computation; use vocab_parallel none",
      lanes.messages, blocks.per_message, lanes.vocabulary, blocks.per_vocabulary, lanes.started,
      blocks.per_started, lanes.awaited ? blocks.per_awaited : 0, most, multiprocessors));
}

}  // namespace plumbline
