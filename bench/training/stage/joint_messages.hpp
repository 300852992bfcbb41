// Messages that carry a micro-batch's teacher and student activations side by side (NeMo pull request 13065).
#pragma once

#include <vector>

#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

/// Joint messages of one stage: (R, h_T + h), the teacher's columns first; backward they are zero.
class JointMessages {
 public:
  JointMessages(const RankResources& student, const TrainingContext& teacher, const StagePart& part);

  const Matrix& send_forward_buffer() const { return send_forward_; }
  const Matrix& send_backward_buffer() const { return send_backward_; }
  /// Allocate the receive buffer of a message.
  Matrix receive_forward(std::uint32_t microbatch);
  Matrix receive_backward(std::uint32_t microbatch);

  void unpack_teacher(std::uint32_t microbatch, const Matrix& to) const;
  /// The last look at the message.
  void unpack_student(std::uint32_t microbatch, const Matrix& to);
  void unpack_gradient(std::uint32_t microbatch, const Matrix& to);
  void pack_forward(const Matrix& teacher, const Matrix& student) const;
  void pack_backward(const Matrix& gradient) const;

 private:
  Tensor make(const char* holder) const;
  Matrix teacher_part(const Matrix& message) const { return message.columns(0, teacher_hidden_); }
  Matrix student_part(const Matrix& message) const { return message.columns(teacher_hidden_, hidden_); }

  const TrainingContext& context_;
  const std::int64_t teacher_hidden_;
  const std::int64_t hidden_;
  Tensor send_forward_, send_backward_;
  std::vector<Tensor> received_forward_, received_backward_;  // by micro-batch
};

}  // namespace plumbline::training
