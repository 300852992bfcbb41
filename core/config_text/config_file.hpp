// Source of a configuration: YAML as a flat list of settings, a model's name, or nothing; and the
// configuration that settings make.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/config/model_config.hpp"
#include "core/config_text/config_key.hpp"
#include "core/config_text/overrides.hpp"
#include "core/launch_files/launch_file.hpp"

namespace YAML {
class Node;
}

namespace plumbline {

/// Canonical key → text as written. An inline mapping (a model) is its JSON text.
using Settings = std::map<std::string, ConfigText>;

/// CONFIG and MATRIX of the command line, as a mapping.
class ConfigFile {
 public:
  /// `source` is a YAML file (an empty one is an empty mapping), or the model alone: a preset's name, a
  /// Hugging Face folder or its config.json; a launch file of another framework, or its arguments (a source
  /// that begins with --); or empty if options give everything. Throws InputError for
  /// anything else, and for a file that is not readable, larger than 1 MiB (but for logs), not YAML, not one
  /// mapping, or nested too deep.
  /// `beside` fills what a launch script leaves to its environment.
  explicit ConfigFile(const std::string& source, const BesideFile& beside = {});

  /// "run.yaml:12" for a node, "qwen2.5-0.5b" for a model that stands for itself.
  std::string origin(const YAML::Node& node) const;
  /// Lines about a launch file of another framework: what was read, and what it leaves open. Mostly empty.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Sizes that a launch file sets of a model that the user names.
  const std::vector<ModelSize>& model_sizes() const { return model_sizes_; }
  /// True for a launch file of another framework.
  bool is_launch_file() const { return is_launch_file_; }
  /// Micro-batches of a replica in a step, which a launch file may give instead of the global batch; else 0.
  std::int64_t num_microbatches() const { return num_microbatches_; }
  /// Throws InputError when there is no model although a launch file has some of its sizes.
  void check_model(const Settings& settings) const;
  /// Throws InputError when the data-parallel size is no multiple of that of a launch file.
  void check_replicas(std::int64_t data_parallel) const;
  /// Name of the whole in messages: "run.yaml", "command line".
  const std::string& name() const { return name_; }
  /// The value of one key. Throws InputError when it is a list or nothing.
  ConfigText value(const YAML::Node& key, const YAML::Node& node) const;
  /// The keys of a mapping, without those in `except`. Throws InputError for an unknown key or one that is
  /// given twice.
  Settings settings(const YAML::Node& mapping, const std::set<std::string>& except = {}) const;

  const YAML::Node& root() const { return *root_; }

 private:
  void read_yaml(const std::string& text);
  void leave_out(const BesideFile& beside);
  /// True if the mapping is a config.json, whatever its name. Throws InputError if YAML has its keys.
  bool is_model_mapping(const std::string& text) const;
  void take(const LaunchFile& launch);

  std::string name_;
  std::string folder_;  // of the file
  std::shared_ptr<const YAML::Node> root_;
  std::map<std::string, std::string> origins_;  // of a launch file's keys
  std::vector<std::string> notes_;
  std::vector<ModelSize> model_sizes_;
  std::string no_model_;  // why a launch file has none, if it should
  bool is_launch_file_ = false;
  std::int64_t num_microbatches_ = 0;
  std::int64_t replicas_ = 1;
  std::string replicas_origin_;
};

/// Overrides as settings; later ones win.
Settings settings_of(const Overrides& overrides);
/// Puts `more` over `settings`.
void merge(Settings& settings, const Settings& more);
/// The settings of a file overridden by those of the command line. World size and data-parallel size follow
/// from each other, so naming one of them on the command line drops the file's other.
void put_over(Settings& file, const Settings& command_line);

/// A configuration from settings; `origin` names them as a whole. Contradicting world and parallel sizes are
/// left in `contradiction`. Other errors throw InputError, among them no model, and keys about a teacher
/// without a teacher (`teacher: none` disables them).
RunConfig config_from(const Settings& settings, const std::string& origin, std::string& contradiction);

}  // namespace plumbline
