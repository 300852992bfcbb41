// Lanes of groups and of the host in a record.
#pragma once

#include <optional>

#include "core/base/json_keys.hpp"
#include "core/trace/lane_sums.hpp"

namespace plumbline {

/// {"tensor": {"time_s", "exposed_s"}, …, "host": …} of the lanes that have anything.
OrderedJson to_json(const LaneSums& sums);

/// What `part` has under "lanes"; nothing in records without.
std::optional<LaneSums> lane_sums_of(const OrderedJsonKeys& part);

}  // namespace plumbline
