// LoRA and images of Megatron-Bridge's recipes.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_arguments.hpp"
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

/// Images of a sequence, which a processor of the model makes tokens of: by default one of 256 · 256 pixels
/// (NVIDIA-NeMo/Megatron-Bridge@067f987 src/megatron/bridge/data/builders/mock_vlm_sft.py), in squares of
/// 32 · 32 pixels a token (Qwen3-VL: patches of 16, 2 · 2 merged).
void put_images(LaunchArguments& own);

}  // namespace plumbline
