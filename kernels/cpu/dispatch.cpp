// The error messages of the CPU operators.
#include "kernels/cpu/dispatch.hpp"

#include <fmt/format.h>

namespace plumbline::cpu {

void throw_disagreement(const char* op, const char* expected, std::initializer_list<Named> arguments) {
  std::string found;
  for (const Named& argument : arguments) {
    const Matrix& x = argument.matrix;
    found += fmt::format("{}{} {}x{} {}", found.empty() ? "" : ", ", argument.name, x.rows, x.cols,
                         name_of(x.dtype));
    if (!x.contiguous()) found += fmt::format(" stride {}", x.stride);
  }
  throw Error(fmt::format("{}: shapes or types disagree: {}; expected {}", op, found, expected));
}

void throw_unsupported(const char* op, DType type) {
  throw Error(fmt::format("{}: {} is unsupported on the CPU; use fp32 or bf16", op, name_of(type)));
}

}  // namespace plumbline::cpu
