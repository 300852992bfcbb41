// Settings that the command line gives beside a launch file.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace plumbline {

struct BesideFile {
  std::map<std::string, std::string> keys;       // a configuration's key by its canonical name → value
  std::map<std::string, std::string> variables;  // of a script, in place of its first assignments
  std::set<std::string> exported;                // those that another script sets: the environment alone
  std::set<std::string> ignored;                 // the file's arguments that are left out: plain_name()
  /// True for the name of a configuration's key; nullptr: none is known.
  bool (*is_key)(std::string_view name) = nullptr;
  /// Path of the launch script, which may be run in a sandbox (--run-script); empty: scripts are parsed only.
  std::string run_script;
  /// Arguments all of whose keys are given here are left out, too: for a file that is refused otherwise.
  bool replaces_rules = false;

  const std::string* text = nullptr;  // content in place of the file's

  bool gives(const std::string& key) const { return keys.contains(key); }
  bool ignores(const std::string& name) const { return ignored.contains(plain_name(name)); }
  /// "--cpu-offloading" as cpu_offloading.
  static std::string plain_name(std::string name) {
    name.erase(0, name.find_first_not_of('-'));
    for (char& c : name)
      if (c == '-') c = '_';
    return name;
  }
};

/// Reason of an argument that is left out.
inline constexpr const char* kIgnored = "left out by --ignore";

}  // namespace plumbline
