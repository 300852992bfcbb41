// A cell that was measured several times.
#pragma once

#include "bench/record/record.hpp"

namespace plumbline {

/// Adds the measurements of earlier rounds of the same cell to `now`: all their steps, whose median is the
/// step time. The other figures stay those of the round whose step is nearer to it; the prediction at probed
/// speed is the mean of the rounds. A disturbed round does not count next to an undisturbed one. Rounds that
/// did not end well change nothing.
void add_rounds(const Record& earlier, Record& now);

}  // namespace plumbline
