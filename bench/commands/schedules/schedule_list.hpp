// The schedules that are built in.
#pragma once

#include <string>

#include "core/base/json_keys.hpp"

namespace plumbline {

/// A line per schedule, from its traits, under titles.
std::string schedule_list();
/// [{"name", "stages_per_rank", "split_backward", "notes"}].
OrderedJson schedule_list_json();

}  // namespace plumbline
