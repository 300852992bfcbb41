// Formats MPI errors.
#include "core/backends/mpi/check.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/base/error.hpp"

namespace plumbline {

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  const std::string_view words(text.data(), static_cast<std::size_t>(length));
  std::string_view name = file;
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  throw Error(fmt::format("{}:{}: {}: {} (MPI error {})", name, line, call, words, code));
}

}  // namespace plumbline
