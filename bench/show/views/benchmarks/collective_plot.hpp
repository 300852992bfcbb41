// Benchmarks of collectives as a picture.
#pragma once

#include <string>
#include <vector>

#include "bench/record/collective_row.hpp"

namespace plumbline {

/// An SVG with a panel per benchmark and place, time over size on logarithmic axes: measured with its
/// interval, predicted, and the limit of the bandwidth.
std::string collective_svg(const std::vector<CollectiveRow>& rows);

}  // namespace plumbline
