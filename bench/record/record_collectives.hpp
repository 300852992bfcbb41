// Collectives in a record: those of vocabulary parallelism, and the lanes of groups and of the host.
#pragma once

#include <optional>

#include "bench/record/record.hpp"
#include "core/base/json_keys.hpp"
#include "core/trace/collective_overlap.hpp"
#include "core/trace/lane_sums.hpp"

namespace plumbline {

/// {"C0": {"time_s", "exposed_s", "waited_s", "overlapped"}, …} of all five; "overlapped" is null where there
/// is no steady state.
OrderedJson to_json(const VocabularyOverlap& overlap);

/// Value of "vocabulary_collectives" in `time`; nothing in records without.
std::optional<VocabularyOverlap> vocabulary_collectives_of(const OrderedJsonKeys& time);

/// {"tensor": {"time_s", "exposed_s"}, …, "host": …} of the lanes that have anything.
OrderedJson to_json(const LaneSums& sums);

/// Value of "lanes" in `part`, a prediction or measurement; nothing in records without.
std::optional<LaneSums> lane_sums_of(const OrderedJsonKeys& part);

}  // namespace plumbline
