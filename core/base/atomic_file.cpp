#include "core/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
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
constexpr int kMakeNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;

[[noreturn]] void fail_with(int error) {
  throw std::system_error(error, std::generic_category());
}

bool lock(int file) {
  return ::flock(file, LOCK_EX | LOCK_NB) == 0;
}

/// True if `name` is still the file behind `file`.
bool is_at(int file, const std::string& name) {
  struct stat mine {};
  struct stat there {};
  return ::fstat(file, &mine) == 0 && ::lstat(name.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

/// Removes a partial file whose writer is dead; false when it lives or the file cannot be removed.
bool remove_dead(const std::string& name) {
  const int file = ::open(name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno == ENOENT;
  const bool removed = lock(file) && is_at(file, name) && ::unlink(name.c_str()) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  return removed;
}

/// A new, locked file of that name; -1 with errno.
int open_locked(const std::string& name) {
  // Somebody may take it for a dead writer's between its making and its locking: then try again.
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int file = ::open(name.c_str(), kMakeNew, 0666);
    if (file < 0) return -1;
    const bool locked = lock(file) || errno != EWOULDBLOCK;  // a file system may have no locks
    if (locked && is_at(file, name)) return file;
    ::close(file);
  }
  errno = EBUSY;
  return -1;
}

/// Writes all bytes; 0, or errno.
int write_all_to(int file, std::string_view bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 30;  // a single call writes less than 2 GiB
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kChunk));
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      return written == 0 ? ENOSPC : errno;
    }
  }
  return 0;
}

/// 0, or errno of the failed call. Closing counts: some file systems report a full disk only then.
int write_in_place(const std::string& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  const int error = write_all_to(file, bytes);
  return ::close(file) != 0 && error == 0 ? errno : error;
}

/// 0, or errno of the failed call.
int write_and_rename(const std::string& path, std::string_view bytes) {
  try {
    PartialFile partial(path);
    if (const int error = write_all_to(partial.descriptor(), bytes); error != 0) return error;
    partial.commit();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

}  // namespace

PartialFile::PartialFile(const std::string& path) : path_(path) {
  // A name of its own when another writer of the same path is at work, or something odd is in the way.
  for (const std::string& name : {path + ".partial", fmt::format("{}.{}.partial", path, ::getpid())}) {
    name_ = name;
    if (!remove_dead(name)) continue;
    file_ = open_locked(name);
    if (file_ >= 0) return;
    if (errno != EEXIST) break;
  }
  fail_with(errno);
}

PartialFile::~PartialFile() {
  if (file_ < 0) return;
  ::unlink(name_.c_str());
  ::close(file_);
}

void PartialFile::commit() {
  // Renamed while the lock is held: nobody takes it for a dead writer's. A copy of the descriptor is closed
  // first, for the file systems that report a full disk only then.
  const int copy = ::fcntl(file_, F_DUPFD_CLOEXEC, 0);
  int error = copy >= 0 && ::close(copy) != 0 && errno != EINTR ? errno : 0;
  if (error == 0 && std::rename(name_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(name_.c_str());
  ::close(file_);
  file_ = -1;
  if (error != 0) fail_with(error);
}

void write_whole_file(const std::string& path, std::string_view bytes) {
  std::error_code unknown;
  const auto status = std::filesystem::symlink_status(path, unknown);
  const bool in_place = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  const int error = in_place ? write_in_place(path, bytes) : write_and_rename(path, bytes);
  if (error == 0) return;
  throw OutputError(fmt::format("{}: cannot be written: {}; expected a path in a writable folder",
                                printable(path, kLongestShown), std::strerror(error)));
}

void remove_with_partial(const std::string& path) {
  ::unlink(path.c_str());
  remove_dead(path + ".partial");
}

namespace {

/// A path that the system does not take: too long, or through a folder that may not be entered.
void check_path(const std::string& path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::none) return;
  throw OutputError(fmt::format("{}: {} cannot be written: {}; expected a path in a writable folder", what,
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
  throw OutputError(fmt::format("{}: found {}, expected a writable folder; make it or name another", what,
                                printable(place.string(), kLongestShown)));
}

void check_can_write(const std::string& path, const std::string& what) {
  check_path(path + ".partial", what);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    throw OutputError(
        fmt::format("{}: {} is a folder, expected a file to write", what, printable(path, kLongestShown)));
  }
  const bool in_place =
      std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown);
  if (in_place && ::access(path.c_str(), W_OK) == 0) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(folder, unknown) && ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw OutputError(fmt::format("{}: found {}, expected a writable folder; make it or name another", what,
                                printable(folder.string(), kLongestShown)));
}

}  // namespace plumbline
