// Predicted and measured memory of one cell, down to the action.
#pragma once

#include <optional>
#include <string>

#include "bench/record/record.hpp"
#include "bench/report/timelines.hpp"

namespace plumbline {

/// Whether prediction and measurement are equal to the byte: on every rank and in every category at its peak,
/// and where there are timelines during and after every action; or else the first difference. One line.
/// Empty when the record lacks one of the two.
std::string memory_verdict(const Record& record, const std::optional<CellTimelines>& timelines);

/// The rank that needs most: bytes by category at its peak, predicted and measured, the action of the peak
/// and the largest holders. Several lines; empty when the record lacks one of the two.
std::string memory_table(const Record& record);

}  // namespace plumbline
