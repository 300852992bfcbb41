// Requirements of every operator on its arguments, whatever the backend: a function of its name, which throws
// Error before anything is written. A backend adds what only it cannot do.
#pragma once

#include <cstdint>

#include "kernels/operators.hpp"

namespace plumbline::checks {

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) void name parameters;
#include "kernels/operator_list.inc"

}  // namespace plumbline::checks
