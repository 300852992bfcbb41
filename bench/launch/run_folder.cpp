// Creation, locking and clearing of run folders.
#include "bench/launch/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

std::string name_prefix() {
  return fmt::format("plumbline-run-{}-", getuid());
}

std::vector<std::string> places() {
  std::vector<std::string> found{"/dev/shm"};
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary == '/') found.emplace_back(temporary);
  found.emplace_back("/tmp");
  return found;
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

RunFolder::RunFolder() {
  remove_stale_run_folders();
  for (const std::string& place : places()) {
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
  throw Error("no folder for temporary files: neither /dev/shm nor TMPDIR nor /tmp is writable");
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

int remove_stale_run_folders() {
  int removed = 0;
  const std::string prefix = name_prefix();
  for (const std::string& place : places()) {
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
