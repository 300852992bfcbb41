// The operator list without arithmetic. Shapes are checked, no memory is touched, and every call takes the
// time that a given function predicts for the emulated device.
#pragma once

#include <memory>

#include "core/run/emulated_clock.hpp"
#include "kernels/emulated/emulated_call.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Operators that add each call's time to `clock`. Losses and norms are 0, downloads leave host memory as it
/// is. Attention needs the scratch of the cpu backend, so that both allocate the same bytes. `clock` must
/// outlive them.
std::unique_ptr<Operators> make_emulated_operators(EmulatedClock& clock, CallTime time);

}  // namespace plumbline
