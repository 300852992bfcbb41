// The collectives of vocabulary parallelism in a record.
#pragma once

#include <optional>

#include "bench/record/record.hpp"
#include "core/base/json_keys.hpp"
#include "core/trace/collective_overlap.hpp"

namespace plumbline {

/// {"C0": {"time_s", "exposed_s", "waited_s", "overlapped"}, …} of all five; "overlapped" is null where there
/// is no steady state.
OrderedJson to_json(const VocabularyOverlap& overlap);

/// What `time` has under "vocabulary_collectives"; nothing in records without.
std::optional<VocabularyOverlap> vocabulary_collectives_of(const OrderedJsonKeys& time);

}  // namespace plumbline
