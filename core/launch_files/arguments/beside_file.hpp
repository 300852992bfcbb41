// Settings that the command line gives beside a launch file.
#pragma once

#include <map>
#include <string>

namespace plumbline {

struct BesideFile {
  std::map<std::string, std::string> keys;       // a configuration's key by its canonical name → value
  std::map<std::string, std::string> variables;  // of the shell that would run a script
  /// Arguments all of whose keys are given here are left out, too: for a file that is refused otherwise.
  bool replaces_rules = false;

  bool gives(const std::string& key) const { return keys.contains(key); }
};

}  // namespace plumbline
