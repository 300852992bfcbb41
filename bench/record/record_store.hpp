// The results of a matrix in a folder: one record per line, written so that a kill loses no finished cell.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

inline constexpr const char* kResultsFile = "results.jsonl";
inline constexpr const char* kPredictionsFile = "predictions.jsonl";  // of a matrix that is predicted only

/// The latest record of every id, in the order in which the ids first came.
class LatestRecords {
 public:
  void put(Record record);
  /// nullptr when there is none.
  const Record* find(const std::string& id) const;
  const std::vector<Record>& all() const { return records_; }
  std::vector<Record> take() { return std::move(records_); }

 private:
  std::vector<Record> records_;
  std::unordered_map<std::string, std::size_t> places_;
};

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

  /// Passes all records on, outdated ones included. Throws InputError.
  void each(const std::function<void(Record, LineSpan)>& take) const;
  /// Parses the record at a place that each() gave.
  Record at(LineSpan place) const;
  /// The records of the whole lines, when bytes without an end of line follow them; nothing for a whole file.
  std::optional<int> cut_after() const;

 private:
  /// True for the output of `run --json`: one record over many lines, at a place of length 0.
  bool is_one_record() const;

  std::string path_;
  int file_ = -1;
};

/// alone: nobody else until the end. shared: others may append as well; then records() is as of the last
/// refresh() or append().
enum class StoreUse { alone, shared };

/// Append-only access.
class RecordStore {
 public:
  /// Opens or makes `folder`/`file`, locks it, drops a last line that a kill left unfinished and reads the
  /// rest. Throws OutputError when the folder cannot be written, InputError when another process holds it or
  /// a whole line is not a record.
  explicit RecordStore(const std::string& folder, const std::string& file = kResultsFile,
                       StoreUse use = StoreUse::alone);
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Writes one line and waits until it is on the disk. Throws Error, with the file unchanged, when that
  /// fails, or when check_place() does.
  void append(const Record& record);
  /// Throws Error when the file is no longer the one at path(): the folder was removed or moved, and writes
  /// would be lost.
  void check_place() const;
  /// Reads records that others have appended. Throws InputError when it is not records.
  void refresh();
  /// True if a record of this id has arrived since the store was opened, from any runner.
  bool is_new(const std::string& id) const { return new_.contains(id); }
  const LatestRecords& records() const { return records_; }
  const std::string& path() const { return path_; }

 private:
  void read_on();

  std::string path_;
  int file_ = -1;
  int turn_ = -1;    // of sharers: a file whose lock admits one reader or writer at a time
  off_t known_ = 0;  // bytes that records_ has
  int lines_ = 0;    // in them
  LatestRecords records_;
  std::set<std::string> new_;
};

/// The records of a folder (results, or else predictions), of a .jsonl file, or of the output of `run
/// --json`. Nothing is locked or changed; an unfinished last line is left out. Throws InputError.
std::vector<Record> load_records(const std::string& folder_or_file);

}  // namespace plumbline
