#include <fmt/format.h>

#include <algorithm>

#include "core/config/common_vocabulary.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

/// Vocabularies may differ by padding rows: once padded they must be as large.
std::optional<std::string> why_vocabularies_differ(const RunConfig& config) {
  constexpr std::int64_t kMostPadding = 32;  // one row in so many
  RunConfig student = config;
  RunConfig teacher = config;
  teacher.model = *config.distillation.teacher;
  const std::int64_t more = std::max(student.model.vocab, teacher.model.vocab);
  const std::int64_t fewer = std::min(student.model.vocab, teacher.model.vocab);
  const auto padded_alike = [&] { return teacher.padded_vocab() == student.padded_vocab(); };
  if (more == fewer || (more - fewer <= fewer / kMostPadding && padded_alike())) return std::nullopt;
  const std::string found =
      fmt::format("teacher: {} has a vocabulary of {}", teacher.model.name, teacher.model.vocab);
  if (more - fewer > fewer / kMostPadding) {
    return fmt::format("{}, expected the {} of {}, but for padding: the two outputs are compared", found,
                       student.model.vocab, student.model.name);
  }
  std::int64_t& multiple = student.parallel.make_vocab_size_divisible_by;
  multiple = 1;
  while (!padded_alike()) {
    multiple *= 2;
    teacher.parallel.make_vocab_size_divisible_by = multiple;
  }
  return fmt::format(
      "{} and {} one of {}, expected a make_vocab_size_divisible_by that pads both to the same, such as {}",
      found, student.model.name, student.model.vocab, multiple);
}

}  // namespace

std::int64_t common_vocab(const RunConfig& config) {
  if (!config.distillation.teacher) return config.model.vocab;
  return std::min(config.model.vocab, config.distillation.teacher->vocab);
}

std::optional<std::string> why_distillation_invalid(const RunConfig& config) {
  const std::string& schedule = config.parallel.schedule;
  if (!config.distillation.teacher) {
    if (schedule_traits(schedule).teacher) {
      return fmt::format(
          "pipeline_schedule: found {}, which orders a teacher; expected teacher: and distillation_schedule: "
          "{}",
          schedule, schedule);
    }
    return std::nullopt;
  }
  const ModelConfig& teacher = *config.distillation.teacher;
  const std::int64_t t = config.parallel.tensor;
  if (auto reason = why_vocabularies_differ(config)) return reason;
  if (teacher.layers < config.parallel.pipeline) {
    return fmt::format(
        "pipeline_model_parallel_size: {} stages, expected at most the {} layers of the teacher {}: every "
        "stage holds one",
        config.parallel.pipeline, teacher.layers, teacher.name);
  }
  if (schedule != ParallelConfig{}.schedule || config.parallel.virtual_chunks != 1) {
    return fmt::format(
        "pipeline_schedule: found {} with {} chunks and a teacher, expected 1f1b with 1: the order is "
        "that "
        "of distillation_schedule",
        schedule, config.parallel.virtual_chunks);
  }
  if (!config.numerics.cross_entropy_loss_fusion) {
    return "cross_entropy_loss_fusion: found false with a teacher, expected true; distillation_loss: "
           "unfused "
           "is what eager code does there";
  }
  if (config.parallel.splits_vocabulary()) {
    return fmt::format("vocab_parallel: found {} with a teacher, expected none",
                       vocab_parallel_name(config.parallel.vocab_parallel));
  }
  if (auto reason = why_tensor_split_invalid(teacher, t)) return reason;
  if (teacher.positions == Positions::learned && config.batch.seq_length > teacher.max_positions) {
    return fmt::format("seq_length: found {}, expected at most the {} learned positions of the teacher {}",
                       config.batch.seq_length, teacher.max_positions, teacher.name);
  }
  if (config.distillation.loss == DistillationLoss::unfused && t > 1) {
    return fmt::format(
        "distillation_loss: found unfused with tensor_model_parallel_size {}, expected fused: the separate "
        "tensors are those of one rank",
        t);
  }
  if (config.distillation.loss == DistillationLoss::unfused &&
      config.distillation.kl == DistillationKl::reverse) {
    return "distillation_loss: found unfused with distillation_kl reverse, expected fused or forward";
  }
  return std::nullopt;
}

}  // namespace plumbline
