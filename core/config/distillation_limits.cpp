// Limits about a teacher.
#include <fmt/format.h>

#include <algorithm>

#include "core/config/common_vocabulary.hpp"
#include "core/config/compatibility_features.hpp"
#include "core/config/compatibility_limits.hpp"

namespace plumbline {

std::int64_t common_vocab(const RunConfig& config) {
  if (!config.distillation.teacher) return config.model.vocab;
  return std::min(config.model.vocab, config.distillation.teacher->vocab);
}

namespace features {

std::optional<std::string> teacher_queries_limit(const C& c) {
  const auto& teacher = c.distillation.teacher;
  if (!teacher || !teacher->mixture || !teacher->latent || teacher->latent.query_rank > 0)
    return std::nullopt;
  return fmt::format("teacher: found {} without q_lora_rank, expected queries that are compressed, too",
                     teacher->name);
}

/// Vocabularies may differ by padding rows: once padded they must be as large.
std::optional<std::string> teacher_vocabulary_limit(const C& c) {
  constexpr std::int64_t kMostPadding = 32;  // one row in so many
  if (!kTeacher.on(c)) return std::nullopt;
  C student = c;
  C teacher = c;
  teacher.model = *c.distillation.teacher;
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

std::optional<std::string> teacher_stages_limit(const C& c) {
  if (!kTeacher.on(c) || c.distillation.teacher->layers >= c.parallel.pipeline) return std::nullopt;
  return fmt::format(
      "pipeline_model_parallel_size: {} stages, expected at most the {} layers of the teacher {}: every "
      "stage holds one",
      c.parallel.pipeline, c.distillation.teacher->layers, c.distillation.teacher->name);
}

std::optional<std::string> teacher_schedule_limit(const C& c) {
  const std::string& schedule = c.parallel.pp.schedule;
  if (!kTeacher.on(c)) {
    if (!schedule_traits(schedule).teacher) return std::nullopt;
    return fmt::format(
        "pipeline_schedule: found {}, which orders a teacher; expected teacher: and distillation_schedule: "
        "{}",
        schedule, schedule);
  }
  if (schedule == PipelineConfig{}.schedule && c.parallel.pp.virtual_chunks == 1) return std::nullopt;
  return fmt::format(
      "pipeline_schedule: found {} with {} chunks and a teacher, expected 1f1b with 1: the order is that of "
      "distillation_schedule",
      schedule, c.parallel.pp.virtual_chunks);
}

std::optional<std::string> teacher_tensor_limit(const C& c) {
  return kTeacher.on(c) ? why_tensor_split_invalid(*c.distillation.teacher, c.parallel.tensor) : std::nullopt;
}

std::optional<std::string> teacher_positions_limit(const C& c) {
  const auto& teacher = c.distillation.teacher;
  if (!teacher || teacher->position.kind != Positions::learned || c.batch.seq_length <= teacher->position.max)
    return std::nullopt;
  return fmt::format("seq_length: found {}, expected at most the {} learned positions of the teacher {}",
                     c.batch.seq_length, teacher->position.max, teacher->name);
}

}  // namespace features
}  // namespace plumbline
