// Writing a file whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace plumbline {

/// An output that cannot be made or stored: its folder is missing, may not be written to, or has no room.
class OutputError : public Error {
 public:
  explicit OutputError(const std::string& text) : Error(text, ExitCode::rank_failed) {}
};

/// A file while it is written: PATH.partial, which becomes PATH when it is whole. A lock shows that its
/// writer lives: the file of a killed writer is removed by the next one for the same path.
class PartialFile {
 public:
  /// Throws std::system_error with the errno of the failed call.
  explicit PartialFile(const std::string& path);
  /// Removes the written file unless commit() was reached.
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

/// Writes the file whole or not at all: alongside, then renamed. An existing `path` that is no regular file
/// (a device, a pipe, a link) is written in place. Throws OutputError, one line with the path and the
/// system's message.
void write_whole_file(const std::string& path, std::string_view bytes);

/// Removes the file, and a killed writer's partial file beside it. No error when there is none.
void remove_with_partial(const std::string& path);

/// For files written at the end of long work: throws OutputError, beginning with `what`, when `path` is a
/// folder, or its folder is missing or not writable.
void check_can_write(const std::string& path, const std::string& what);
/// The same for a folder that is made when it is missing.
void check_can_fill(const std::string& folder, const std::string& what);

}  // namespace plumbline
