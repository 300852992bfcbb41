// Reading, locking and appending results.
#include "bench/record/record_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bench/record/record_file.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}; expected an output folder that can be written", path, why));
}

/// Holds the lock of sharers; a single runner has none.
class Turn {
 public:
  Turn(int file, const std::string& path) : file_(file) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0) {
      if (errno != EINTR) throw Error(fmt::format("{}: cannot be locked: {}", path, std::strerror(errno)));
    }
  }
  ~Turn() {
    if (file_ >= 0) flock(file_, LOCK_UN);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_;
};

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw Error(std::strerror(written < 0 ? errno : ENOSPC));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

RecordStore::RecordStore(const std::string& folder, const std::string& file, StoreUse use)
    : path_(folder + "/" + file) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(folder, error.message());
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) refuse(path_, std::strerror(errno));
  try {
    const bool shared = use == StoreUse::shared;
    if (flock(file_, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      throw InputError(fmt::format(
          "{}: found in use by another run{}, expected a free folder; wait for it or choose another folder",
          path_, shared ? " that does not share it (--share)" : ""));
    }
    if (shared) {
      const std::string lock = path_ + ".lock";
      turn_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
      if (turn_ < 0) refuse(lock, std::strerror(errno));
    }
    refresh();
    new_.clear();
    // The folder's entry of a new file must be on the disk as well.
    const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      fsync(directory);
      close(directory);
    }
  } catch (...) {
    close(file_);
    if (turn_ >= 0) close(turn_);
    throw;
  }
}

RecordStore::~RecordStore() {
  close(file_);
  if (turn_ >= 0) close(turn_);
}

void RecordStore::refresh() {
  const Turn turn(turn_, path_);
  read_on();
}

/// Reads on after the known bytes. The owner of the lock finds an unfinished line only where a kill left it.
void RecordStore::read_on() {
  struct stat info {};
  if (fstat(file_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == known_) return;
  // Cut off by another process: the rest is known, but not the end of a line.
  const bool cut = info.st_size < known_;
  if (cut) lines_ = 0;
  const off_t whole = read_record_lines(file_, cut ? 0 : known_, path_, lines_, [&](Record record, LineSpan) {
    if (!cut) new_.insert(record.id);
    records_.put(std::move(record));
  });
  if (fstat(file_, &info) == 0 && whole != info.st_size && ftruncate(file_, whole) != 0)
    refuse(path_, std::strerror(errno));
  known_ = whole;
}

void RecordStore::append(const Record& record) {
  const Turn turn(turn_, path_);
  if (turn_ >= 0) read_on();
  const off_t before = lseek(file_, 0, SEEK_END);
  try {
    write_all(file_, to_line(record) + "\n");
    if (fsync(file_) != 0) throw Error(std::strerror(errno));
  } catch (const Error& error) {
    if (before >= 0 && ftruncate(file_, before) != 0) throw Error(fmt::format("{}: {}", path_, error.what()));
    throw Error(fmt::format("{}: cannot write a record: {}", path_, error.what()));
  }
  check_place();
  known_ = lseek(file_, 0, SEEK_END);
  ++lines_;
  new_.insert(record.id);
  records_.put(record);
}

void RecordStore::check_place() const {
  struct stat mine {};
  struct stat there {};
  if (fstat(file_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
      mine.st_dev == there.st_dev) {
    return;
  }
  throw Error(
      fmt::format("{}: removed or moved while it is written, its {}; leave the folder where it is "
                  "until the run has ended",
                  path_, mine.st_nlink == 0 ? "records are gone" : "records are where it is now"));
}

void LatestRecords::put(Record record) {
  const auto [place, fresh] = places_.try_emplace(record.id, records_.size());
  if (fresh) {
    records_.push_back(std::move(record));
  } else {
    records_[place->second] = std::move(record);
  }
}

const Record* LatestRecords::find(const std::string& id) const {
  const auto place = places_.find(id);
  return place == places_.end() ? nullptr : &records_[place->second];
}

}  // namespace plumbline
