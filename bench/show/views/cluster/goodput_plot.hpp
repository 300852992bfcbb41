// The effective time over the interval of checkpoints, as a picture.
#pragma once

#include <string>

#include "analysis/reliability/goodput.hpp"

namespace plumbline {

/// Expected effective share (closed form) over the interval between two checkpoints, as an SVG picture.
/// Curves are the request and every single change of it, with the chosen interval marked. Intervals shorter
/// than a save are left out.
std::string goodput_svg(const GoodputRequest& request, const GoodputReport& report);

}  // namespace plumbline
