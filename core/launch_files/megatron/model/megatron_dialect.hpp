// Surroundings of Megatron-LM's arguments, and the framework whose arguments they are.
#pragma once

#include <cstdint>
#include <string>

namespace plumbline {

/// Surroundings of the arguments: GPUs that the launcher starts.
struct LauncherFacts {
  std::int64_t world_size = 0;  // 0: not said
  std::string place;
};

/// The framework whose arguments these are.
struct MegatronDialect {
  const char* framework = "Megatron-LM";
  const char* software = "megatron-core";
  /// The file sets a recipe's values anew: a model's shape, sizes and defaults may be missing.
  bool partial = false;
  /// Keys are those of Megatron-Bridge's GPTModelProvider: num_query_groups needs no group_query_attention,
  /// and learned positions are those of seq_length.
  bool provider = false;
  bool recipe = false;     // without a model: of a recipe, whose defaults count
  bool finetunes = false;  // that recipe trains a checkpoint further
};

}  // namespace plumbline
