#include "core/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestShown = 400;

/// 0, or errno of what failed. Closing counts: some file systems report a full disk only then.
int write_and_close(const std::string& path, std::string_view bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 30;  // a single call writes less than 2 GiB
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kChunk));
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      error = written == 0 ? ENOSPC : errno;
    }
  }
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

/// 0, or errno of what failed.
int write_and_rename(const std::string& path, std::string_view bytes) {
  const std::string temporary = temporary_name(path);
  int error = write_and_close(temporary, bytes);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return fmt::format("{}.{}.partial", path, ::getpid());
}

void write_whole_file(const std::string& path, std::string_view bytes, ExitCode code) {
  std::error_code unknown;
  const auto status = std::filesystem::symlink_status(path, unknown);
  const bool in_place = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  const int error = in_place ? write_and_close(path, bytes) : write_and_rename(path, bytes);
  if (error == 0) return;
  const std::string line = fmt::format("{}: cannot be written: {}; expected a path in a writable folder",
                                       printable(path, kLongestShown), std::strerror(error));
  if (code == ExitCode::bad_input) throw InputError(line);
  throw Error(line, code);
}

namespace {

/// A path that the system does not take: too long, or through a folder that may not be entered.
void check_path(const std::string& path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::none) return;
  throw InputError(fmt::format("{}: {} cannot be written: {}; expected a path in a writable folder", what,
                               printable(path, kLongestShown), error.message()));
}

}  // namespace

void check_can_fill(const std::string& folder, const std::string& what) {
  check_path(folder, what);
  std::error_code unknown;
  std::filesystem::path place = std::filesystem::absolute(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "folder/"
  if (!std::filesystem::exists(place, unknown)) place = place.parent_path();
  if (std::filesystem::is_directory(place, unknown) && ::access(place.c_str(), W_OK | X_OK) == 0) return;
  throw InputError(fmt::format("{}: {} is not a writable folder; make it or name another", what,
                               printable(place.string(), kLongestShown)));
}

void check_can_write(const std::string& path, const std::string& what) {
  check_path(temporary_name(path), what);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    throw InputError(
        fmt::format("{}: {} is a folder, expected a file to write", what, printable(path, kLongestShown)));
  }
  const bool in_place =
      std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown);
  if (in_place && ::access(path.c_str(), W_OK) == 0) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(folder, unknown) && ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw InputError(fmt::format("{}: {} is not a writable folder; make it or name another", what,
                               printable(folder.string(), kLongestShown)));
}

}  // namespace plumbline
