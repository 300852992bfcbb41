// Private folders of one command: temporary files, and shared-memory segments of its ranks.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// Purpose of a folder: it decides the places that are tried first.
enum class RunFolderUse {
  shared_memory,  // /dev/shm, where Open MPI would put its segments; TMPDIR; /tmp
  files,          // TMPDIR; /tmp; /dev/shm
};

/// Removed with all contents at the end. A lock on the folder shows that its owner lives: making one first
/// removes those of dead owners.
class RunFolder {
 public:
  /// Made in the first place that can be written and has `room` bytes free. Throws OutputError when there is
  /// none.
  explicit RunFolder(RunFolderUse use, Bytes room = {});
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

/// Removes the folders of this user whose owners died; returns how many. Every command does so when it
/// starts.
int remove_stale_run_folders();

}  // namespace plumbline
