#include "bench/training/stage/distillation.hpp"

#include <fmt/format.h>

#include "bench/training/ends/distillation_loss.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

const StageEntry& only_stage(const RankParameters& parameters) {
  if (parameters.stages.size() == 1) return parameters.stages.front();
  throw Error(fmt::format("distillation: found {} stages on a rank, expected 1", parameters.stages.size()));
}

RankParameters teacher_parameters(const RunConfig& config, const RankResources& student) {
  const Communicator& communicator = student.context.communicator;
  const Coordinates at = communicator.layout().coordinates(communicator.rank());
  return rank_parameters(config, student.placement, at);
}

}  // namespace

DistillationStage::DistillationStage(RankResources& student, Seconds& tensor_communication, bool joint)
    : student_(student),
      entry_(only_stage(student.parameters)),
      config_(teacher_config(student.context.config)),
      teacher_({config_, LayerWidths(config_), student.context.operators, student.context.communicator,
                student.context.arena, tensor_communication, Category::teacher},
               student.placement, teacher_parameters(config_, student), student.shared.attention_scratch),
      student_stage_(student, entry_, joint),
      teacher_stage_(teacher_, teacher_.parameters.stages.front(), joint) {
  if (joint) joint_.emplace(student_, teacher_.context, entry_.part);
}

void DistillationStage::run(const Action& action) {
  switch (action.type) {
    case ActionType::forward:
      forward(action.microbatch);
      break;
    case ActionType::teacher_forward:
      teacher_forward(action.microbatch);
      break;
    default:
      backward(action);
      break;
  }
}

void DistillationStage::teacher_forward(std::uint32_t microbatch) {
  const StagePart& part = entry_.part;
  if (joint_ && !part.first()) joint_->unpack_teacher(microbatch, teacher_stage_.receive(microbatch));
  teacher_stage_.forward(microbatch, part.first() ? student_.input_tokens(microbatch) : Matrix());
  compare(microbatch);
}

void DistillationStage::forward(std::uint32_t microbatch) {
  const StagePart& part = entry_.part;
  if (joint_ && !part.first()) joint_->unpack_student(microbatch, student_stage_.receive_forward(microbatch));
  student_stage_.forward(microbatch);
  if (joint_ && !part.last()) {
    const Tensor output = student_stage_.take_output();
    const Tensor teacher_output = teacher_stage_.take_output(microbatch);
    joint_->pack_forward(teacher_output, output);
  }
  compare(microbatch);
}

void DistillationStage::backward(const Action& action) {
  const StagePart& part = entry_.part;
  if (joint_ && !part.last()) {
    joint_->unpack_gradient(action.microbatch, student_stage_.receive_backward(action.microbatch));
  }
  if (action.type == ActionType::backward) {
    student_stage_.backward(action.microbatch);
  } else {
    student_stage_.backward_input(action.microbatch);
  }
  if (joint_ && !part.first()) joint_->pack_backward(student_stage_.take_input_gradient());
}

void DistillationStage::compare(std::uint32_t microbatch) {
  if (!entry_.part.last() || !teacher_stage_.has_output(microbatch)) return;
  const Matrix logits = student_stage_.logits(microbatch);
  if (logits.data == nullptr) return;  // the student comes later
  const Tensor teacher = teacher_stage_.take_logits(microbatch);
  student_stage_.add_loss(
      distillation_loss(student_, student_stage_.output_end().columns(), microbatch, logits, teacher));
}

Matrix DistillationStage::send_buffer(const Action& action) {
  if (action.type == ActionType::send_teacher) return teacher_stage_.send_buffer();
  const bool forward = action.type == ActionType::send_forward;
  if (joint_) return forward ? joint_->send_forward_buffer() : joint_->send_backward_buffer();
  return forward ? student_stage_.send_forward_buffer() : student_stage_.send_backward_buffer();
}

Matrix DistillationStage::receive_buffer(const Action& action) {
  const std::uint32_t microbatch = action.microbatch;
  if (action.type == ActionType::receive_teacher) return teacher_stage_.receive(microbatch);
  const bool forward = action.type == ActionType::receive_forward;
  if (joint_) return forward ? joint_->receive_forward(microbatch) : joint_->receive_backward(microbatch);
  return forward ? student_stage_.receive_forward(microbatch) : student_stage_.receive_backward(microbatch);
}

}  // namespace plumbline::training
