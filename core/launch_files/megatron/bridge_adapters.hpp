// LoRA of Megatron-Bridge's recipes.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// The argument has a value other than none.
bool is_given(const LaunchArgument& argument);

class BridgeAdapters {
 public:
  /// Reads a key of the section peft; other adapters than LoRA's usual ones are refused in `file`.
  void add(const std::string& leaf, const LaunchArgument& key, LaunchFile& file);
  /// Empty when no key was given.
  const std::vector<LaunchSetting>& settings() const { return settings_; }

 private:
  void set(const char* name, const std::string& value, const LaunchArgument& key);

  std::vector<LaunchSetting> settings_;
};

}  // namespace plumbline
