// A cell that was measured several times.
#pragma once

#include "bench/record/record.hpp"

namespace plumbline {

/// Adds to `now` what earlier rounds of the same cell measured: all their steps, of which the median is the step time. The
/// other figures stay those of the round whose step is nearer to it; the prediction at probed speed is the mean of the
/// rounds. A round that was disturbed does not count next to one that was not. Rounds that did not end well change
/// nothing.
void add_rounds(const Record& earlier, Record& now);

}  // namespace plumbline
