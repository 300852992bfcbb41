// Folders that a command fills with files of its own choosing, perhaps where other people can write, too.
#pragma once

#include <string>
#include <string_view>

#include "core/base/atomic_file.hpp"

namespace plumbline {

/// A folder whose files are reached by its descriptor: a folder that takes its place meanwhile is not written
/// to. No file is reached through a symbolic link, and only regular files are replaced.
class OutputFolder {
 public:
  /// The folder that a user names; it may be a link. Throws OutputError when it is not there.
  static OutputFolder named(const std::string& path);
  /// A folder that commands make below a named one: the same, but it may not be a link.
  static OutputFolder made(const std::string& path);
  /// The same, made when it is missing; the folder that it is in must be there.
  static OutputFolder make(const std::string& path);

  ~OutputFolder();
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&& other) noexcept;

  /// Throws InputError when a file of that name would be refused.
  void check(const std::string& name) const;
  /// check(), then as write_whole_file, with its line for a failure.
  void write(const std::string& name, std::string_view bytes) const;
  /// As remove_with_partial.
  void remove(const std::string& name) const;
  /// A descriptor, as open(2) gives it, made when it is missing. Throws OutputError, InputError for a link.
  int open_file(const std::string& name, int flags) const;

 private:
  OutputFolder(std::string path, int flags);
  /// The file by way of the descriptor.
  std::string inside(const std::string& name) const;

  std::string path_;
  int folder_ = -1;
};

}  // namespace plumbline
