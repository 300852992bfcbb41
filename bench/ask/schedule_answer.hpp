// Schedules and their simulation as replies.
#pragma once

#include "core/base/json_keys.hpp"

namespace plumbline {

/// {"schedule", "simulation", "svg"} of a request with "name", "pp", "microbatches", "chunks", "group",
/// "memory_limit", "transfers"; F, I and W of a rank take one unit of time. Throws InputError.
OrderedJson schedule_answer(const OrderedJsonKeys& request);
/// {"simulation", "svg"} of the same request with "costs" (analysis/simulate/costs_json.hpp).
OrderedJson simulate_answer(const OrderedJsonKeys& request);

}  // namespace plumbline
