// Output of `plumbline convert --check`.
#pragma once

#include <string>

#include "bench/convert/check/checkpoint_check.hpp"

namespace plumbline {

/// A line per sequence, and one for all.
std::string check_text(const convert::CheckRequest& request, const convert::CheckReport& report);
std::string check_json(const convert::CheckRequest& request, const convert::CheckReport& report);

}  // namespace plumbline
