// Predicted and measured memory of one cell, down to the action.
#pragma once

#include <optional>
#include <string>

#include "bench/record/record.hpp"
#include "bench/show/report/timelines.hpp"

namespace plumbline {

/// Compares prediction and measurement to the byte: on every rank and in every category at its peak, and,
/// with timelines, during and after every action. Reports equality or the first difference, in one line.
/// Empty when the record lacks one of the two.
std::string memory_verdict(const Record& record, const std::optional<CellTimelines>& timelines);

/// The rank that needs most: bytes by category at its peak, predicted and measured, the action of the peak
/// and the largest holders. Several lines; empty when the record lacks one of the two.
std::string memory_table(const Record& record);

}  // namespace plumbline
