// What the runtime that stands in for CUDA's has been asked for.
#pragma once

namespace plumbline::test {

/// How often this process has waited for its stream.
int waits_for_the_device();

}  // namespace plumbline::test
