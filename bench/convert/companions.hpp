// Files beside the weights that belong to the model: the tokenizer, how to generate.
#pragma once

#include <string>
#include <vector>

#include "bench/convert/planned_files.hpp"

namespace plumbline::convert {

/// Those that the folder has, whole. Empty for no folder. Throws InputError for one that cannot be read or is
/// too large.
std::vector<PlannedText> companions_in(const std::string& folder);

}  // namespace plumbline::convert
