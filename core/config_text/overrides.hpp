// Values that are put over those of a configuration file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// Key and value, as `--set key=value` gives them; of several for one key the last one counts.
using Overrides = std::vector<std::pair<std::string, std::string>>;

}  // namespace plumbline
