// The error message of a type that the CPU operators do not know.
#include "kernels/cpu/dispatch.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline::cpu {

void throw_unsupported(const char* op, DType type) {
  throw Error(
      fmt::format("{}: {} is unsupported here on the CPU; use fp32, bf16 or fp16", op, name_of(type)));
}

}  // namespace plumbline::cpu
