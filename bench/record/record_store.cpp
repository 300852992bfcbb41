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

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr off_t kMaxFile = off_t{1} << 33;
constexpr std::size_t kChunk = std::size_t{1} << 20;

std::string record_path(const std::string& folder_or_file) {
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
  if (!fs::exists(path, error)) {
    throw InputError(
        fmt::format("{}: found no such file or folder, expected a folder that `matrix` or `oom` wrote "
                    "(--out), or a .jsonl file",
                    printable(path)));
  }
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    throw InputError(
        fmt::format("{}: found a configuration, expected records: a folder that `matrix` or `oom` wrote, or "
                    "a .jsonl file",
                    printable(path)));
  }
  return path;
}
/// Reason of the last failed open() without following links.
[[noreturn]] void refuse(const std::string& path, int error) {
  const bool link = error == ELOOP;
  const std::string line = fmt::format("{}: {}; expected an output folder that can be written", path,
                                       link ? "found a symbolic link; remove it" : std::strerror(error));
  if (link) throw InputError(line);
  throw OutputError(line);
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

off_t read_record_lines(int file, off_t from, const std::string& path, int& lines,
                        const std::function<void(Record, LineSpan)>& take) {
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    throw InputError(path + ": not a regular file; expected records");
  if (info.st_size > kMaxFile)
    throw InputError(
        fmt::format("{0}: found a larger file, expected at most {1} bytes; split it", path, kMaxFile));
  std::string text;  // a line's beginning, and the bytes read last
  off_t known = from;
  for (off_t at = from;;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t got = pread(file, text.data() + before, kChunk, at);
    if (got < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (got < 0) throw InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    text.resize(before + static_cast<std::size_t>(got));
    at += got;
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n', before); end != std::string::npos; end = text.find('\n', begin)) {
      ++lines;
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos)
        take(parse_record(line, fmt::format("{}:{}", path, lines)),
             {known + static_cast<off_t>(begin), line.size()});
      begin = end + 1;
    }
    text.erase(0, begin);
    known += static_cast<off_t>(begin);
    if (got == 0) return known;
    if (text.size() > kLongestRecord) {
      throw InputError(fmt::format("{}: line {}: found a longer record, expected at most {} bytes", path,
                                   lines + 1, kLongestRecord));
    }
  }
}

RecordFile::RecordFile(const std::string& folder_or_file) : path_(record_path(folder_or_file)) {
  // O_NONBLOCK: a pipe is refused without waiting for a writer.
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) throw InputError(path_ + ": not a regular file; expected records");
}

RecordFile::~RecordFile() {
  close(file_);
}

bool RecordFile::is_one_record() const {
  char begin[2] = {};
  return pread(file_, begin, sizeof begin, 0) == sizeof begin && begin[0] == '{' && begin[1] == '\n';
}

void RecordFile::each(const std::function<void(Record, LineSpan)>& take) const {
  if (is_one_record()) {
    take(at({}), {});
    return;
  }
  int lines = 0;
  read_record_lines(file_, 0, path_, lines, take);
}

std::optional<int> RecordFile::cut_after() const {
  struct stat info {};
  if (is_one_record() || fstat(file_, &info) != 0 || info.st_size == 0) return std::nullopt;
  char last = 0;
  if (pread(file_, &last, 1, info.st_size - 1) != 1 || last == '\n') return std::nullopt;
  int records = 0;
  each([&](const Record&, LineSpan) { ++records; });
  return records;
}

Record RecordFile::at(LineSpan place) const {
  if (place.length == 0) return parse_record(read_text_file(path_, kLongestRecord), path_);
  std::string line(place.length, '\0');
  for (std::size_t have = 0; have < line.size();) {
    const ssize_t got =
        pread(file_, line.data() + have, line.size() - have, place.begin + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw InputError(path_ + ": cut off while it was read; expected records");
    have += static_cast<std::size_t>(got);
  }
  return parse_record(line, path_);
}

RecordStore::RecordStore(const std::string& folder, const std::string& file, StoreUse use)
    : path_(folder + "/" + file) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(folder, error.value());
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) refuse(path_, errno);
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
      if (turn_ < 0) refuse(lock, errno);
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
  if (fstat(file_, &info) == 0 && whole != info.st_size && ftruncate(file_, whole) != 0) refuse(path_, errno);
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

std::vector<Record> load_records(const std::string& folder_or_file) {
  LatestRecords latest;
  RecordFile(folder_or_file).each([&](Record record, LineSpan) { latest.put(std::move(record)); });
  std::vector<Record> records = latest.take();
  set_speedups(records);
  return records;
}

}  // namespace plumbline
