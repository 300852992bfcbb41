#include "bench/convert/target_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostAccountBytes = std::size_t{16} << 20;
constexpr const char* kAccountOnItsWay = "conversion.json.partial";  // of a conversion that was killed early

std::string shown_path(const std::string& path) {
  return printable(path, 400);
}

[[noreturn]] void cannot(const std::string& path, const char* what, int error) {
  throw OutputError(fmt::format("{}: cannot be {}: {}", shown_path(path), what, std::strerror(error)));
}

bool is_empty_or_missing(const fs::path& folder) {
  std::error_code error;
  return !fs::exists(fs::symlink_status(folder, error)) ||
         (fs::is_directory(folder, error) && fs::is_empty(folder, error));
}

/// True if the folder holds a checkpoint, and so may be removed to make room.
bool is_checkpoint(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error) || !fs::is_directory(folder, error)) return false;
  for (const char* name :
       {kAccountFile, kAccountOnItsWay, "latest_checkpointed_iteration.txt", "model.safetensors",
        "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (fs::exists(folder / name, error)) return true;
  }
  return false;
}

/// Removes the folder's contents. Its account stays, or is made, so that the next conversion after a kill can
/// identify it.
void remove_contents(const fs::path& folder) {
  const fs::path account = folder / kAccountFile;
  std::error_code error;
  if (!fs::exists(account, error)) OutputFolder::made(folder.string()).write(kAccountFile, "{}\n");
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path() != account) fs::remove_all(entry.path(), error);
    if (error) cannot(entry.path().string(), "removed", error.value());
  }
}

}  // namespace

TargetFolder::TargetFolder(const std::string& to, bool overwrite, const std::string& account) {
  fs::path place = fs::absolute(to).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "folder/"
  to_ = place.string();
  partial_ = to_ + ".partial";
  if (!is_empty_or_missing(to_)) {
    if (!overwrite)
      throw InputError(fmt::format(
          "TO: found an existing {}, expected a new folder; name another folder, or add --overwrite",
          shown_path(to_)));
    if (!is_checkpoint(to_))
      throw InputError(
          fmt::format("TO: found {} with other content than a checkpoint, expected a checkpoint or a new "
                      "folder; name another folder",
                      shown_path(to_)));
  }
  take_over(account);
}

void TargetFolder::take_over(const std::string& account) {
  const fs::path manifest = fs::path(partial_) / kAccountFile;
  std::error_code error;
  if (!is_empty_or_missing(partial_) && !is_checkpoint(partial_)) {
    throw InputError(
        fmt::format("{}: in the way, expected a folder that a conversion has left, or none; remove it",
                    shown_path(partial_)));
  }
  fs::create_directory(partial_, error);
  if (error) cannot(partial_, "made", error.value());
  // The folder itself is locked: files in it come and go.
  lock_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock_ < 0) cannot(partial_, "opened", errno);
  struct stat owned = {};
  if (::fstat(lock_, &owned) != 0 || owned.st_uid != ::geteuid()) {
    ::close(lock_);
    lock_ = -1;
    throw InputError(
        fmt::format("{}: is of another user, expected a folder that this one has made; name another folder",
                    shown_path(partial_)));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    lock_ = -1;
    throw InputError(
        fmt::format("TO: found {} in use by another conversion, expected a free folder; wait for it, or name "
                    "another folder",
                    shown_path(partial_)));
  }
  if (fs::exists(manifest, error) && read_text_file(manifest.string(), kMostAccountBytes) == account) return;
  remove_contents(partial_);  // of another conversion
  OutputFolder::made(partial_).write(kAccountFile, account);
}

TargetFolder::~TargetFolder() {
  if (lock_ >= 0) ::close(lock_);
}

std::string TargetFolder::path_of(const std::string& file) const {
  const fs::path path = fs::path(partial_) / file;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) cannot(path.parent_path().string(), "made", error.value());
  return path.string();
}

bool TargetFolder::has(const std::string& file) const {
  std::error_code error;
  return fs::is_regular_file(fs::path(partial_) / file, error);
}

std::int64_t TargetFolder::free_bytes() const {
  struct statvfs disk = {};
  if (::statvfs(partial_.c_str(), &disk) != 0) cannot(partial_, "looked at", errno);
  return static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
}

void TargetFolder::publish() {
  if (::fsync(lock_) != 0) cannot(partial_, "written", errno);
  if (is_empty_or_missing(to_)) {
    if (std::rename(partial_.c_str(), to_.c_str()) != 0) cannot(to_, "made", errno);
    return;
  }
  // At every instant there is a whole checkpoint of that name.
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, to_.c_str(), RENAME_EXCHANGE) != 0)
    cannot(to_, "replaced", errno);
  remove_contents(partial_);
  std::error_code error;
  fs::remove_all(partial_, error);
  if (error) cannot(partial_, "removed", error.value());
}

}  // namespace plumbline::convert
