#include "kernels/checks/arguments.hpp"

#include <fmt/format.h>

#include <string>

#include "core/base/error.hpp"

namespace plumbline {

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

void require_probability(const char* op, double probability) {
  if (probability >= 0 && probability < 1) return;
  throw Error(fmt::format("{}: dropout probability {}; expected 0 <= p < 1", op, probability));
}

}  // namespace plumbline
