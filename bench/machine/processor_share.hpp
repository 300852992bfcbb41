// How much of its processors this process gets just now.
#pragma once

#include "core/base/units.hpp"

namespace plumbline {

/// Keeps every processor of this process busy for `duration`: the processor time that it got, as a share of all of it.
/// Less than 1 beside other programs and under a quota.
double processor_share(Seconds duration);

}  // namespace plumbline
