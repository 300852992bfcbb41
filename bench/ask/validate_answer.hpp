// Predictions of published runs as a reply.
#pragma once

#include <functional>

#include "core/base/json_keys.hpp"

namespace plumbline {

/// As `validate --json` prints. Takes a second or two; `progress(done, all)` counts tables.
OrderedJson validate_answer(const std::function<void(int, int)>& progress);

}  // namespace plumbline
