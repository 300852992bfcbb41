#include "bench/training/stage/joint_messages.hpp"

namespace plumbline::training {

JointMessages::JointMessages(const RankResources& student, const TrainingContext& teacher,
                             const StagePart& part)
    : context_(student.context),
      teacher_hidden_(teacher.shape.hidden),
      hidden_(student.context.shape.hidden),
      received_forward_(static_cast<std::size_t>(student.placement.microbatches)),
      received_backward_(received_forward_.size()) {
  if (!part.last()) send_forward_ = make("send-forward buffer");
  if (!part.first()) {
    send_backward_ = make("send-backward buffer");
    context_.operators.fill(send_backward_, 0);  // the teacher's columns stay so
  }
}

Tensor JointMessages::make(const char* holder) const {
  return context_.make(Category::communication, holder, context_.shape.rows, teacher_hidden_ + hidden_);
}

Matrix JointMessages::receive_forward(std::uint32_t microbatch) {
  received_forward_[microbatch] = make("joint message");
  return received_forward_[microbatch];
}

Matrix JointMessages::receive_backward(std::uint32_t microbatch) {
  received_backward_[microbatch] = make("joint message");
  return received_backward_[microbatch];
}

void JointMessages::unpack_teacher(std::uint32_t microbatch, const Matrix& to) const {
  context_.operators.copy(teacher_part(received_forward_[microbatch]), to);
}

void JointMessages::unpack_student(std::uint32_t microbatch, const Matrix& to) {
  context_.operators.copy(student_part(received_forward_[microbatch]), to);
  received_forward_[microbatch].reset();
}

void JointMessages::unpack_gradient(std::uint32_t microbatch, const Matrix& to) {
  context_.operators.copy(student_part(received_backward_[microbatch]), to);
  received_backward_[microbatch].reset();
}

void JointMessages::pack_forward(const Matrix& teacher, const Matrix& student) const {
  context_.operators.copy(teacher, teacher_part(send_forward_));
  context_.operators.copy(student, student_part(send_forward_));
}

void JointMessages::pack_backward(const Matrix& gradient) const {
  context_.operators.copy(gradient, student_part(send_backward_));
}

}  // namespace plumbline::training
