#include <fmt/format.h>

#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {

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
  const ModelConfig& student = config.model;
  const std::int64_t t = config.parallel.tensor;
  if (teacher.vocab != student.vocab) {
    return fmt::format(
        "teacher: {} has a vocabulary of {}, expected the {} of {}: the two outputs are compared",
        teacher.name, teacher.vocab, student.vocab, student.name);
  }
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
