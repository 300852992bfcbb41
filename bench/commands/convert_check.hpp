// Output of `plumbline convert --check`.
#pragma once

#include <string>

#include "bench/training/check/checkpoint_comparison.hpp"

namespace plumbline {

/// A line per sequence, and one for all.
std::string check_text(const training::CheckRequest& request, const training::CheckReport& report);
std::string check_json(const training::CheckRequest& request, const training::CheckReport& report);

}  // namespace plumbline
