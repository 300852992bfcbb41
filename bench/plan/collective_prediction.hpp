// Times of single collectives and messages by the model that prices a step.
#pragma once

#include <optional>

#include "analysis/hardware/hardware.hpp"
#include "bench/record/collective_row.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// Seconds of one row's call in `group` of the layout, all groups at once; nothing for a window of messages,
/// which the model does not price.
std::optional<double> predicted_seconds(const CollectiveRow& row, Group group, const Layout& layout,
                                        const HardwareProfile& hardware);

/// Time without latency: `bytes` at the rate of large messages.
double seconds_at_limit(const CollectiveRow& row, Group group, const Layout& layout,
                        const HardwareProfile& hardware);

}  // namespace plumbline
