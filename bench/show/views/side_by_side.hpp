// One configuration for people: prediction and measurement side by side.
#pragma once

#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Memory by category on the fullest rank, then time, bubble and throughput. Columns: prediction, measurement
/// and their difference, as far as the record has them.
std::string side_by_side(const Record& record);

}  // namespace plumbline
