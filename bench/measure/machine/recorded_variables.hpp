// Environment variables that a record keeps: those that change measurements, by name. Everything else may be
// a secret.
#pragma once

#include <string_view>

namespace plumbline {

bool is_recorded_variable(std::string_view name);

}  // namespace plumbline
