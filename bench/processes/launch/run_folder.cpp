// Creation, locking and clearing of run folders.
#include "bench/processes/launch/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

std::string name_prefix() {
  return fmt::format("plumbline-run-{}-", getuid());
}

std::vector<std::string> places(RunFolderUse use) {
  std::vector<std::string> found;
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary == '/') found.emplace_back(temporary);
  if (std::find(found.begin(), found.end(), "/tmp") == found.end()) found.emplace_back("/tmp");
  const bool memory_first = use == RunFolderUse::shared_memory;
  found.insert(memory_first ? found.begin() : found.end(), "/dev/shm");
  return found;
}

/// Bytes that may be written in a folder; nothing is free where it cannot be asked.
Bytes free_in(const std::string& place) {
  struct statvfs info {};
  if (statvfs(place.c_str(), &info) != 0) return {0};
  constexpr double kMost = 0x1p60;
  if (info.f_blocks == 0) return {static_cast<std::int64_t>(kMost)};  // a file system without a size
  return {static_cast<std::int64_t>(
      std::min(kMost, static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize)))};
}

/// "/dev/shm (0.1 MiB free), /tmp (Read-only file system)".
std::string describe(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& place : all) {
    text +=
        fmt::format("{}{} ({})", text.empty() ? "" : ", ", place,
                    access(place.c_str(), W_OK) == 0
                        ? fmt::format("{:.1f} MiB free", static_cast<double>(free_in(place).value) / 0x1p20)
                        : std::string(std::strerror(errno)));
  }
  return text;
}

int open_folder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// True when the folder behind `fd` has not been removed meanwhile.
bool exists(int fd, const std::string& path) {
  struct stat mine {};
  struct stat there {};
  return fstat(fd, &mine) == 0 && lstat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

bool remove_if_stale(const std::string& path) {
  const int fd = open_folder(path);
  if (fd < 0) return false;
  struct stat info {};
  bool removed = false;
  if (fstat(fd, &info) == 0 && info.st_uid == getuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
    removed = !ignored;
  }
  close(fd);
  return removed;
}

}  // namespace

RunFolder::RunFolder(RunFolderUse use, Bytes room) {
  remove_stale_run_folders();
  for (const std::string& place : places(use)) {
    if (free_in(place) < room) continue;
    // A concurrent clearing may take the folder between its making and its locking: then try again.
    for (int attempt = 0; attempt < 10; ++attempt) {
      std::string path = place + "/" + name_prefix() + "XXXXXX";
      if (mkdtemp(path.data()) == nullptr) break;
      const int fd = open_folder(path);
      if (fd < 0) continue;
      if (flock(fd, LOCK_EX) == 0 && exists(fd, path)) {
        path_ = path;
        lock_ = fd;
        return;
      }
      close(fd);
    }
  }
  throw OutputError(fmt::format(
      "TMPDIR: found {2}, expected a folder for {0} with {1:.1f} MiB; set TMPDIR to one with more room",
      use == RunFolderUse::files ? "temporary files" : "the ranks' shared memory",
      static_cast<double>(room.value) / 0x1p20, describe(places(use))));
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

int remove_stale_run_folders() {
  int removed = 0;
  const std::string prefix = name_prefix();
  for (const std::string& place : places(RunFolderUse::files)) {
    DIR* folder = opendir(place.c_str());
    if (folder == nullptr) continue;
    std::vector<std::string> found;
    while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe)
      if (std::string_view(entry->d_name).starts_with(prefix)) found.push_back(place + "/" + entry->d_name);
    }
    closedir(folder);
    for (const std::string& path : found) removed += remove_if_stale(path) ? 1 : 0;
  }
  return removed;
}

}  // namespace plumbline
