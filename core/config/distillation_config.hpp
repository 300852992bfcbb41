// Distillation: training against the outputs of a teacher, a model that is only evaluated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/model_config.hpp"

namespace plumbline {

enum class DistillationKl { forward, reverse };    // KL(teacher ‖ student), KL(student ‖ teacher)
enum class DistillationLoss { fused, unfused };    // in place, or separate fp32 tensors
enum class DistillationCache { logits, hidden };   // kept form of a teacher's output until the loss
enum class DistillationCacheDType { same, fp32 };  // of kept logits

/// In effect when there is a teacher.
struct DistillationConfig {
  std::optional<ModelConfig> teacher;
  std::string teacher_weights;  // folder of a Hugging Face checkpoint; empty: seeded random
  std::string schedule = "abeja";
  double temperature = 1;
  DistillationKl kl = DistillationKl::forward;
  double lm_weight = 0;  // of the language-model loss; the divergence has the rest of 1
  DistillationLoss loss = DistillationLoss::fused;
  DistillationCache cache = DistillationCache::logits;
  DistillationCacheDType cache_dtype = DistillationCacheDType::same;
  /// bubble-fill: limit for kept teacher outputs; 0: as many as the memory budget allows.
  std::int64_t cache_limit = 0;
};

}  // namespace plumbline
