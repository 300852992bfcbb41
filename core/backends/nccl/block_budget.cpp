#include "core/backends/nccl/block_budget.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {

int blocks_alongside(const NcclLanes& lanes, const NcclBlocks& blocks) {
  return (lanes.messages + lanes.vocabulary) * blocks.per_message;
}

int most_blocks_at_once(const NcclLanes& lanes, const NcclBlocks& blocks) {
  return blocks_alongside(lanes, blocks) + lanes.started * blocks.per_started +
         (lanes.awaited ? blocks.per_awaited : 0);
}

int multiprocessors_for_computation(const NcclLanes& lanes, const NcclBlocks& blocks, int multiprocessors) {
  const int most = most_blocks_at_once(lanes, blocks);
  const int left = multiprocessors - blocks_alongside(lanes, blocks);
  if (most <= multiprocessors && 2 * left >= multiprocessors) return left;
  throw InputError(
      fmt::format("NCCL: {} message channels and {} collectives of a split vocabulary with {} blocks each, "
                  "{} collectives alongside "
                  "with {} and one that is waited for with {} are {} blocks, but the GPU has {} "
                  "multiprocessors, half of which are for "
                  "computation; use fewer pipeline neighbours or vocab_parallel none",
                  lanes.messages, lanes.vocabulary, blocks.per_message, lanes.started, blocks.per_started,
                  lanes.awaited ? blocks.per_awaited : 0, most, multiprocessors));
}

}  // namespace plumbline
