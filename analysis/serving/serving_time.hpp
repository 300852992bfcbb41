// Time of operators as the kernels of inference engines take them.
#pragma once

#include "analysis/time/operator_time.hpp"

namespace plumbline {

/// Time of a call, times its count, under an engine that runs it on an accelerator with ServingRates:
/// products of few rows, experts in grouped products, attention over a KV cache and all-reduces of small
/// buffers within NVLink. Other calls, and all on other machines: time_of().
Seconds serving_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load);

}  // namespace plumbline
