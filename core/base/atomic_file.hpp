// Writing a file whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace plumbline {

/// A file on its way: it is written alongside as PATH.partial, and becomes PATH when it is whole. A lock says
/// that its writer lives: what a killed one left is taken away by the next that writes to the same path.
class PartialFile {
 public:
  /// Throws std::system_error with the errno of what failed.
  explicit PartialFile(const std::string& path);
  /// Removes what was written when commit() was not reached.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// For writing; -1 after commit().
  int descriptor() const { return file_; }
  /// Alongside `path`, so that renaming it cannot fail for another disk.
  const std::string& name() const { return name_; }
  /// Renames it to `path`. Throws std::system_error, with nothing left alongside.
  void commit();

 private:
  std::string path_;
  std::string name_;
  int file_ = -1;
};

/// Writes the file whole or not at all: alongside, then renamed. What is at `path` and no regular file (a
/// device, a pipe, a link) is written where it is. Throws one line with the path and what the system said:
/// InputError for ExitCode::bad_input (the user chose the path), else Error with that code. A disk without room
/// is no bad path: Error with ExitCode::rank_failed, whatever `code`.
void write_whole_file(const std::string& path, std::string_view bytes, ExitCode code = ExitCode::bad_input);

/// What a file that could not be written ends with: `code`, but for a disk without room or a broken one.
ExitCode code_of_write_error(int error, ExitCode code);

/// Removes the file, and what a killed writer of it left alongside. No error when there is none.
void remove_with_partial(const std::string& path);

/// For files that are written at the end of long work: throws InputError, beginning with `what`, when `path` is a
/// folder, or its folder is not there or not writable.
void check_can_write(const std::string& path, const std::string& what);
/// The same for a folder that is made when it is missing.
void check_can_fill(const std::string& folder, const std::string& what);

}  // namespace plumbline
