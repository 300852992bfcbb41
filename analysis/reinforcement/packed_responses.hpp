// Responses of a step, packed into the sequences of its updates.
#pragma once

#include <cstdint>
#include <span>

#include "core/config/run_config.hpp"

namespace plumbline {

/// The configuration of one update of `update` (update_config()) whose sequences are packs of whole responses
/// with their prompts, by best-fit-decreasing: as many as an update has on average, rounded up to whole
/// micro-batches of all replicas. Attention is within each.
RunConfig packed_update(const RunConfig& update, std::span<const std::int64_t> responses,
                        std::int64_t prompt);

}  // namespace plumbline
