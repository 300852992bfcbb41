// The folder that a conversion fills: alongside its name until everything is there.
#pragma once

#include <string>

namespace plumbline::convert {

/// TO is written as TO.partial and renamed when it is whole. What a killed conversion left there is gone on with by
/// the next one that says the same of itself, and removed by any other.
class TargetFolder {
 public:
  /// `account`: what is converted, and to what; it stays in the folder as conversion.json. Throws InputError: a
  /// folder of that name has something in it and may not be replaced, or is no checkpoint; TO.partial is somebody
  /// else's; another conversion is at work.
  TargetFolder(const std::string& to, bool overwrite, const std::string& account);
  ~TargetFolder();
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

  /// Of a file in the folder; its own folder is made.
  std::string path_of(const std::string& file) const;
  /// Whether a conversion before this one has written it: whole, or it would not have its name.
  bool has(const std::string& file) const;
  /// Free bytes of its disk.
  std::int64_t free_bytes() const;
  /// Gives the folder its name; what had it is removed.
  void publish();

 private:
  void take_over(const std::string& account);

  std::string to_;
  std::string partial_;
  int lock_ = -1;
};

/// The file in a converted checkpoint that says what it was made from.
inline constexpr const char* kAccountFile = "conversion.json";

}  // namespace plumbline::convert
