// Pairs of pipeline ranks that send each other messages, read off a schedule before it runs: NCCL needs its
// communicators built before the first message, and keeps no tags.
#pragma once

#include <vector>

#include "core/schedule/hop.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The channels that the schedule's transfers use, in ascending order; the same list on every rank.
///
/// A channel has no tags: its n-th send meets the n-th receive. Throws InputError when the two ends reach the
/// messages in different orders, or one end has more of them: data would reach the wrong buffer.
std::vector<Channel> channels_of(const Schedule& schedule);

/// From every stage to the next.
std::vector<Channel> forward_channels(int pipeline_size);

}  // namespace plumbline
