// The effective time over the interval of checkpoints, as a picture.
#pragma once

#include <string>

#include "analysis/reliability/goodput.hpp"

namespace plumbline {

/// Expected effective share (closed form) over the interval between two checkpoints, for the request and for every single
/// change of it, with the interval that was chosen, as an SVG picture. Intervals shorter than a save are left out.
std::string goodput_svg(const GoodputRequest& request, const GoodputReport& report);

}  // namespace plumbline
