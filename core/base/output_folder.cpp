#include "core/base/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/atomic_file.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestShownPath = 400;

std::string cannot_write(const std::string& path, const char* why) {
  return fmt::format("{}: cannot be written: {}; expected a path in a writable folder",
                     printable(path, kLongestShownPath), why);
}

[[noreturn]] void refuse(const std::string& path, const char* found) {
  throw InputError(fmt::format(
      "{}: cannot be written: found {}, expected a file or folder that this program made; remove it",
      printable(path, kLongestShownPath), found));
}

/// Throws std::system_error.
void write_all_bytes(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw std::system_error(written < 0 ? errno : ENOSPC, std::generic_category());
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

OutputFolder::OutputFolder(std::string path, int flags)
    : path_(std::move(path)), folder_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags)) {
  if (folder_ >= 0) return;
  const int error = errno;
  struct stat found {};
  if ((flags & O_NOFOLLOW) != 0 && ::lstat(path_.c_str(), &found) == 0 && S_ISLNK(found.st_mode))
    refuse(path_, "a symbolic link");
  throw OutputError(cannot_write(path_, std::strerror(error)));
}

OutputFolder OutputFolder::named(const std::string& path) {
  return {path, 0};
}

OutputFolder OutputFolder::made(const std::string& path) {
  return {path, O_NOFOLLOW};
}

OutputFolder OutputFolder::make(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    throw OutputError(cannot_write(path, std::strerror(errno)));
  return made(path);
}

OutputFolder::~OutputFolder() {
  if (folder_ >= 0) ::close(folder_);
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)), folder_(std::exchange(other.folder_, -1)) {}

OutputFolder& OutputFolder::operator=(OutputFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(folder_, other.folder_);
  return *this;
}

std::string OutputFolder::inside(const std::string& name) const {
  return fmt::format("/proc/self/fd/{}/{}", folder_, name);
}

void OutputFolder::write(const std::string& name, std::string_view bytes) const {
  check(name);
  try {
    PartialFile partial(inside(name));
    write_all_bytes(partial.descriptor(), bytes);
    partial.commit();
  } catch (const std::system_error& error) {
    throw OutputError(cannot_write(path_ + "/" + name, std::strerror(error.code().value())));
  }
}

void OutputFolder::check(const std::string& name) const {
  struct stat found {};
  if (::fstatat(folder_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) return;  // a folder is not replaced by a file
  refuse(path_ + "/" + name, S_ISLNK(found.st_mode) ? "a symbolic link" : "no regular file");
}

void OutputFolder::remove(const std::string& name) const {
  remove_with_partial(inside(name));
}

int OutputFolder::open_file(const std::string& name, int flags) const {
  const int file =
      ::openat(folder_, name.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (file >= 0) return file;
  const int error = errno;
  const std::string path = path_ + "/" + name;
  if (error == ELOOP) refuse(path, "a symbolic link");
  throw OutputError(cannot_write(path, std::strerror(error)));
}

}  // namespace plumbline
