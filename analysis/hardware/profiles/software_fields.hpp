// Constants of software by name (analysis/hardware/software.json).
#pragma once

#include <string_view>

#include "analysis/hardware/software.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// Sets the constant `name` from `constant`'s "value"; false if there is none of that name. Throws InputError
/// for a value of another type and for schedules that are not known.
bool set_software(Software& software, std::string_view name, const JsonKeys& constant);

}  // namespace plumbline
