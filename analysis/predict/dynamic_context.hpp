// Attention work of a run with dynamic_context_parallel, whose conversations have as many context ranks as
// they need.
#pragma once

#include <vector>

#include "analysis/predict/packed_sequences.hpp"
#include "analysis/work/traffic.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Work of an epoch's chats. In every micro-batch the ranks of a group begin attention together, so that a
/// rank waits for those that it meets; `attention` has the calls along the chain of ranks that a step waits
/// for. Pairs include those of the rows that fill up chunks. Throws InputError as ChatData does.
PackedWork dynamic_work(const RunConfig& config);

/// Traffic of the last of a run's steps (warmup_steps and steps), by pipeline rank and data rank; tensor
/// ranks are alike. A rank sends messages in the rings of the micro-batches whose conversations it shares.
/// Throws InputError as ChatData does.
std::vector<std::vector<Traffic>> dynamic_traffic(const RunConfig& config, const RepeatedSchedule& step);

/// Work of a run with packed_sequence and these packs, with dynamic_context_parallel or without.
inline PackedWork work_of_chats(const PackedSequences& packs, const RunConfig& config) {
  return config.batch.dynamic_context_parallel ? dynamic_work(config) : packed_work(packs, config);
}

}  // namespace plumbline
