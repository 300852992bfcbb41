// Names of a file's own for keys that another framework's reader reads.
#pragma once

#include <map>
#include <string>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

class KeyNames {
 public:
  /// Notes that the argument, written `written`, is read as `read`, and gives it that name.
  void rename(LaunchArgument& argument, const std::string& read);
  /// Notes it alone.
  void add(const std::string& written, const std::string& read);
  /// `beside` with what it ignores by the names that are read.
  BesideFile as_read(const BesideFile& beside) const;
  /// Gives settings and remarks of the file the written names again, and its ignored ones.
  void restore(LaunchFile& file, const BesideFile& beside) const;

 private:
  std::map<std::string, std::string> written_;  // by the name that is read
};

/// Appends remarks to those of the file.
void append_remarks(LaunchFile& file, const LaunchFile& more);

}  // namespace plumbline
