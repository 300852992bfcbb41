// One configuration for people: prediction and measurement side by side.
#pragma once

#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Memory by category on the rank that needs most, then time, bubble and throughput; a column for the
/// prediction, one for the measurement and one for their difference, as far as the record has them.
std::string side_by_side(const Record& record);

}  // namespace plumbline
