// Settings that the software and the model of a row imply.
#pragma once

#include "analysis/published/dialect/table_header.hpp"

namespace plumbline {

/// The row with settings that it does not state but its software and model imply. They follow from the row's
/// own settings, never from its names or its source.
Cells with_implied_settings(Cells cells);

}  // namespace plumbline
