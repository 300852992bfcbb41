// Changes of one configuration against it, as a reply.
#pragma once

#include <functional>
#include <vector>

#include "bench/ask/question.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// {"base", "changes", "fastest"}: the prediction of the configuration, and of each change {"keys",
/// "prediction", "fit", "step_time", "peak_memory"} or {"keys", "error"}. Times and peaks are changed ÷ base
/// - 1. `progress` is told the changes that are done, and their number.
/// `fastest`: index of the fastest change that fits and is faster than a base that fits; null: none. Throws
/// InputError when the configuration itself cannot be predicted.
OrderedJson compare_answer(const AskedConfig& base, const OrderedJson& changes,
                           const std::function<void(int, int)>& progress = {});

}  // namespace plumbline
