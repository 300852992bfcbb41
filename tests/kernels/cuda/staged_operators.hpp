// Operators over host memory that pass every call to operators over device memory, so that the cases written
// for the CPU run on a GPU unchanged. Each operand is copied to the device with guard bytes around it and its
// gaps between rows filled. Afterwards guard bytes and gaps must be as they were, and the rows are copied
// back.
#pragma once

#include <memory>

#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline::test {

/// A test failure is added for every byte written outside an operand's rows.
std::unique_ptr<Operators> stage(std::unique_ptr<Operators> device, std::unique_ptr<MemorySource> memory);

}  // namespace plumbline::test
