// The costs.json of `plumbline simulate`.
#pragma once

#include <string>
#include <string_view>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Reads
///   {"stages": [{"forward_us", "backward_us", "backward_input_us", "backward_weight_us",
///                "teacher_forward_us", "vocab_forward_us", "vocab_backward_us",
///                "input_forward_us", "input_backward_us"}, …],
///    "p2p_us", "latency_us", "receive_busy_us", "reduce_gradients_us", "reduce_embedding_us",
///    "optimizer_us", "step_overhead_us", "overlap_factor", "processors", "processes_per_rank",
///    "c0_us", "c1_us", "c2_us", "i1_us", "i2_us"}
/// The last five are the collectives of vocabulary parallelism (core/trace/collective_trace.hpp), for
/// schedules with such passes only. One entry in "stages" stands for all stages. `backward_us` defaults to
/// the sum of its parts, each part to half of `backward_us`. Throws InputError: file, key, what was expected;
/// a missing key that `schedule` needs is named.
Costs parse_costs_json(std::string_view text, const std::string& origin, const Schedule& schedule);

}  // namespace plumbline
