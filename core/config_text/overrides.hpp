// Values that are put over those of a configuration file.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

/// A key and its value, as `--set key=value` gives them.
struct Override {
  std::string key;
  std::string value;
  std::string origin = "--set";  // name in errors: "--tp"
  bool ignores = false;          // the file's key is left out: --ignore key
  bool argument = false;         // those of a launch script: --script-args
  bool runs = false;             // the file is a script that may be run in a sandbox: --run-script
};

/// The last of several overrides of one key counts.
using Overrides = std::vector<Override>;

}  // namespace plumbline
