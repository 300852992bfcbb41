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
#include <fstream>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxFile = std::size_t{1} << 30;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}; expected an output folder that can be written", path, why));
}

/// The whole file; far below the size at which reading it would hurt.
std::string read_whole(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw InputError(path + ": not a regular file; expected records");
  const auto size = fs::file_size(path, error);
  if (error || size > kMaxFile) {
    throw InputError(fmt::format("{}: larger than the {} bytes that are read at most", path, kMaxFile));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// Records of all whole lines. What follows the last line end was never finished. `number` counts lines.
std::vector<Record> parse_lines(std::string_view text, const std::string& path, int& number) {
  std::vector<Record> records;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return records;
    ++number;
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      records.push_back(parse_record(line, fmt::format("{}:{}", path, number)));
    }
    begin = end + 1;
  }
}

/// Holds the lock of sharers; nothing to hold for who is alone.
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
      throw InputError(fmt::format("{}: in use by another run{}; wait for it or choose another folder", path_,
                                   shared ? " that does not share it (--share)" : ""));
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

/// Takes in what follows the known bytes. Whose turn it is finds an unfinished line only where a kill left it.
void RecordStore::read_on() {
  struct stat info {};
  if (fstat(file_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == known_) return;
  const std::string text = read_whole(path_);
  const std::size_t whole = text.rfind('\n') + 1;  // 0 when there is no line end at all
  const std::size_t known = std::min(static_cast<std::size_t>(known_), whole);
  for (Record& record : parse_lines(std::string_view(text).substr(known, whole - known), path_, lines_)) {
    new_.insert(record.id);
    records_.put(std::move(record));
  }
  if (whole != text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0)
    refuse(path_, std::strerror(errno));
  known_ = static_cast<off_t>(whole);
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

std::vector<Record> load_records(const std::string& folder_or_file) {
  std::string path = folder_or_file;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    path = folder_or_file + "/" + kResultsFile;
    if (!fs::exists(path, error)) path = folder_or_file + "/" + kPredictionsFile;
    if (!fs::exists(path, error)) {
      throw InputError(fmt::format("{}: neither {} nor {} is there; expected the folder of a matrix",
                                   folder_or_file, kResultsFile, kPredictionsFile));
    }
  }
  LatestRecords latest;
  int lines = 0;
  for (Record& record : parse_lines(read_whole(path), path, lines)) latest.put(std::move(record));
  return latest.all();
}

}  // namespace plumbline
