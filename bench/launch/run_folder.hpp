// A private folder for one launch: temporary files and shared-memory segments of its ranks.
#pragma once

#include <string>

namespace plumbline {

/// Made in /dev/shm (where Open MPI would put its segments) or else in TMPDIR; removed with all contents at
/// the end. A lock on the folder says that its owner lives: making one first removes those of dead owners.
class RunFolder {
 public:
  /// Throws Error when no place is writable.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

/// Removes the folders of this user whose owners died; returns how many.
int remove_stale_run_folders();

}  // namespace plumbline
