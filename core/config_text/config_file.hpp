// Configuration files: YAML as a flat list of settings, and the configuration that they make.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/config_text/config_key.hpp"
#include "core/config_text/overrides.hpp"

namespace YAML {
class Node;
}

namespace plumbline {

/// Canonical key → text as written. An inline mapping (a model) is its JSON text.
using Settings = std::map<std::string, ConfigText>;

/// One parsed YAML document whose root is a mapping.
class ConfigFile {
 public:
  /// Throws InputError: not readable, larger than 1 MiB, not YAML, not one mapping, nested too deep.
  explicit ConfigFile(const std::string& path);

  /// "run.yaml:12" for a node.
  std::string origin(const YAML::Node& node) const;
  /// The value of one key. Throws InputError when it is a list or nothing.
  ConfigText value(const YAML::Node& key, const YAML::Node& node) const;
  /// The keys of a mapping, without those in `except`. Throws InputError for an unknown key or one that is
  /// given twice.
  Settings settings(const YAML::Node& mapping, const std::set<std::string>& except = {}) const;

  const YAML::Node& root() const { return *root_; }

 private:
  std::string path_;
  std::string folder_;
  std::shared_ptr<const YAML::Node> root_;
};

/// Overrides as settings; later ones win.
Settings settings_of(const Overrides& overrides);
/// Puts `more` over `settings`.
void merge(Settings& settings, const Settings& more);

/// A configuration from settings. Contradicting world and parallel sizes are left in `contradiction`;
/// anything else that is wrong throws InputError.
RunConfig config_from(const Settings& settings, std::string& contradiction);

}  // namespace plumbline
