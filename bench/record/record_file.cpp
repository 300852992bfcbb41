#include "bench/record/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "bench/record/record_store.hpp"
#include "core/base/error.hpp"

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

Record RecordFile::at(LineSpan place) const {
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

}  // namespace plumbline
