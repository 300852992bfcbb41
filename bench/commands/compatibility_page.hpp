// `plumbline help compatibility`: the table of what goes together, as text.
#pragma once

#include <string>

#include "bench/commands/help/text_page.hpp"

namespace plumbline {

/// Every row of core/config/compatibility.hpp and analysis/predict/prediction_rows.hpp, by key, with who
/// refuses.
std::string compatibility_page(const TextStyle& style);

}  // namespace plumbline
