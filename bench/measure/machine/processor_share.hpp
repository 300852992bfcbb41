// Share of its processors that this process gets at the moment.
#pragma once

#include "core/base/units.hpp"

namespace plumbline {

/// Keeps every processor of this process busy for `duration`. Returns the processor time that it got, as a
/// share of all of it: less than 1 beside other programs and under a quota.
double processor_share(Seconds duration);

}  // namespace plumbline
