// The operator list without arithmetic: shapes are checked, no memory is touched, and every call takes the
// time that somebody else says it takes on the emulated device.
#pragma once

#include <memory>

#include "core/run/emulated_clock.hpp"
#include "kernels/emulated/emulated_call.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Operators that add each call's time to `pace`. Losses and norms are 0, downloads leave host memory as it
/// is; attention needs the scratch of the cpu backend, so that both allocate the same bytes. `pace` must
/// outlive them.
std::unique_ptr<Operators> make_emulated_operators(Pace& pace, CallTime time);

}  // namespace plumbline
