// Content of another framework's launch file: its arguments, and the keys that follow from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/beside_file.hpp"

namespace plumbline {

/// A note that is left out where the command line gives the number of GPUs.
inline constexpr const char* kNoGpusNote = "the file does not say how many GPUs it starts; --gpus N does";

/// An argument of a framework as written: a flag of a command, or a key of a file.
struct LaunchArgument {
  std::string name;  // "--num-layers", or "training.local_batch_size"
  std::vector<std::string> values;
  std::string place;             // "train.sh:12"
  bool known = true;             // false: a value depends on something that the file does not say ($1)
  std::string unknown_reason{};  // "which the file does not set"
};

/// A configuration key that a launch file determines.
struct LaunchSetting {
  std::string key;
  std::string value;        // a model is its config.json
  std::string origin;       // "train.sh:12: --num-layers", or "default of Megatron-LM"
  bool is_default = false;  // of the framework, not in the file
};

/// An argument without effect on memory and time, one that is approximated, or one that is not modelled.
struct LaunchRemark {
  std::string name;
  std::string place;
  std::string reason;
  bool is_default = false;  // of the framework, not in the file
};

struct LaunchFile {
  std::string framework;  // "Megatron-LM"
  BesideFile beside{};    // values that count over the file's, set before its arguments are sorted
  std::vector<LaunchSetting> settings;
  std::vector<LaunchRemark> without_effect;
  std::vector<LaunchRemark> approximated;  // predicted nearly as they say
  std::vector<LaunchRemark> refused;
  std::vector<std::string> faults;  // messages about values that no configuration has
  /// Micro-batches of a replica in a step, where the global batch follows from the number of GPUs; 0: it does
  /// not.
  std::int64_t num_microbatches = 0;
  /// The data-parallel size is a multiple of it, as its origin says.
  std::int64_t replicas = 1;
  std::string replicas_origin;
  std::vector<std::string> notes;  // a line each: what the file leaves to its surroundings
  /// Sizes that the file sets of a model that it leaves to the user.
  std::vector<ModelSize> model_sizes;
  std::string no_model;  // why those make no model, for users who name none

  /// Throws InputError that names all refused arguments and faults, in one line.
  void require_modelled() const;
  /// Throws InputError for an ignored name that is not an argument of the file `name`.
  void require_ignored(const std::string& name) const;
};

}  // namespace plumbline
