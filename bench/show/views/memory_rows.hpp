// Memory of one record for people: by category and by holder, of tensors and of the device.
#pragma once

#include "bench/show/views/comparison_sheet.hpp"

namespace plumbline {

/// Peak memory of a rank, by category.
void memory_rows(ComparisonSheet& sheet, int rank);
/// The action of the peak and its largest holders.
void peak_lines(ComparisonSheet& sheet, const Record& record, int rank);
/// The device of the rank that is fullest: its tensors, and the rest.
void device_rows(ComparisonSheet& sheet, const Record& record);

}  // namespace plumbline
