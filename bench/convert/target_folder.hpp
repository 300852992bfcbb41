// The folder that a conversion fills: alongside its name until everything is there.
#pragma once

#include <string>

namespace plumbline::convert {

/// TO is written as TO.partial and renamed when it is whole. Files left by a killed conversion are continued
/// by the next one with the same description, and removed by any other.
class TargetFolder {
 public:
  /// `account`: description of the conversion; it stays in the folder as conversion.json. Throws InputError:
  /// a folder of that name is not empty and may not be replaced, or is no checkpoint; TO.partial belongs to
  /// another conversion; another conversion is running.
  TargetFolder(const std::string& to, bool overwrite, const std::string& account);
  ~TargetFolder();
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

  /// Path of a file in the folder; its own folder is made.
  std::string path_of(const std::string& file) const;
  /// True if an earlier conversion has written it: whole, or it would not have its name.
  bool has(const std::string& file) const;
  /// Free bytes of its disk.
  std::int64_t free_bytes() const;
  /// Gives the folder its final name; a folder that had it is removed.
  void publish();

 private:
  void take_over(const std::string& account);

  std::string to_;
  std::string partial_;
  int lock_ = -1;
};

/// File in a converted checkpoint that describes its source.
inline constexpr const char* kAccountFile = "conversion.json";

}  // namespace plumbline::convert
