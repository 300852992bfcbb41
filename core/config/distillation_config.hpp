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

/// The file of an MoE teacher's routing beside the student's: "runs/r.csv" gives "runs/r.teacher.csv".
inline std::string teacher_routing_file(const std::string& file) {
  const std::size_t name = file.find_last_of('/') + 1;  // 0 without a folder
  const std::size_t dot = file.find_last_of('.');
  const bool ends = dot != std::string::npos && dot > name;
  return file.substr(0, ends ? dot : file.size()) + ".teacher" + (ends ? file.substr(dot) : "");
}

}  // namespace plumbline
