// A teacher with the student's stage on one rank: its own memory, its forward, and the loss that compares
// the two.
#pragma once

#include <optional>

#include "bench/training/stage/joint_messages.hpp"
#include "bench/training/stage/stage.hpp"
#include "bench/training/stage/teacher.hpp"
#include "core/run/executor.hpp"

namespace plumbline::training {

/// Distillation on a rank with one stage of each model. The loss is computed at the end of the later of F and
/// TF of a micro-batch.
class DistillationStage {
 public:
  /// `tensor_communication` as in TrainingContext. All must outlive it. Throws Error when the rank does not
  /// hold exactly one stage.
  DistillationStage(RankResources& student, Seconds& tensor_communication, bool joint);
  DistillationStage(const DistillationStage&) = delete;
  DistillationStage& operator=(const DistillationStage&) = delete;

  /// The student's stage, which the actions F, B, I and W below run.
  ModelStage& student() { return student_stage_; }
  const RankResources& teacher() const { return teacher_; }
  void start_step() { teacher_.expert_load.clear(); }
  /// Does F, TF, B or I.
  void run(const Action& action);
  Matrix send_buffer(const Action& action);
  Matrix receive_buffer(const Action& action);

 private:
  void forward(std::uint32_t microbatch);
  void teacher_forward(std::uint32_t microbatch);
  void backward(const Action& action);
  void compare(std::uint32_t microbatch);

  RankResources& student_;
  const StageEntry& entry_;
  const RunConfig config_;  // the teacher's
  RankResources teacher_;
  std::optional<JointMessages> joint_;
  ModelStage student_stage_;
  TeacherStage teacher_stage_;
};

}  // namespace plumbline::training
