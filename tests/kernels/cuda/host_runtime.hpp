// Requests to the runtime that stands in for CUDA's.
#pragma once

namespace plumbline::test {

/// Number of times that this process has waited for its stream.
int waits_for_the_device();

}  // namespace plumbline::test
