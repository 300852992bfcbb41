// A file of records, one per line, read piece by piece.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Longest line, bytes.
constexpr std::size_t kLongestRecord = std::size_t{1} << 28;

/// A line's place in its file, bytes.
struct LineSpan {
  off_t begin = 0;
  std::size_t length = 0;
};

/// Passes the records of all whole lines from byte `from` on to `take`; the text is never whole in memory.
/// `lines` counts lines. Returns the end of the last one; later bytes were never finished. Throws InputError
/// for anything but records.
off_t read_record_lines(int file, off_t from, const std::string& path, int& lines,
                        const std::function<void(Record, LineSpan)>& take);

/// The file of records that a user named, open for reading.
class RecordFile {
 public:
  /// `folder_or_file` as for load_records(). Throws InputError.
  explicit RecordFile(const std::string& folder_or_file);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// True for the output of `run --json`: one record over many lines.
  bool is_one_record() const;
  int descriptor() const { return file_; }
  const std::string& path() const { return path_; }
  /// Parses the record at a place that read_record_lines() gave.
  Record at(LineSpan place) const;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace plumbline
