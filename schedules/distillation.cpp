// Knowledge distillation under 1F1B. A teacher with the same number of stages runs forward only (TF), and the
// student's last stage needs its output for the loss. Three orders: nemo-2504 (NeMo, April 2025): a teacher
// sweep over all micro-batches, then the student's 1F1B. The last stage keeps M teacher outputs. Makespan
// M(f_T + f_S + B_S) + (P-1)(max(f_T, f_S) + B_S). abeja (ABEJA and NVIDIA 2025): teacher and student forward
// per micro-batch, messages apart. One teacher output. nemo-13065 (NeMo pull request 13065, May 2025): the
// same in one forward step and one message per hop. Makespan M(f_T + f_S + B_S) + (P-1)(f_T + f_S + B_S).
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

/// 1F1B with the teacher's forward right before the student's.
Schedule teacher_before_student(const char* name, int ranks, int microbatches) {
  const Schedule student = one_f_one_b(ranks, microbatches);
  Schedule schedule = student;
  schedule.name = name;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    schedule.actions[r].clear();
    ActionList list(schedule, rank, 3 * static_cast<std::size_t>(microbatches));
    for (const Action& action : student.actions[r]) {
      const int m = static_cast<int>(action.microbatch);
      if (action.type == ActionType::forward) list.add(ActionType::teacher_forward, rank, m);
      list.add(action.type, rank, m);
    }
  }
  return schedule;
}

}  // namespace

Schedule distillation_nemo_2504(int ranks, int microbatches) {
  Schedule schedule = one_f_one_b(ranks, microbatches);
  schedule.name = "nemo-2504";
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const std::vector<Action> student = std::move(actions);
    actions.clear();
    ActionList list(schedule, rank, 3 * static_cast<std::size_t>(microbatches));
    for (int m = 0; m < microbatches; ++m) list.add(ActionType::teacher_forward, rank, m);
    actions.insert(actions.end(), student.begin(), student.end());
  }
  return schedule;
}

Schedule distillation_abeja(int ranks, int microbatches) {
  return teacher_before_student("abeja", ranks, microbatches);
}

Schedule distillation_nemo_13065(int ranks, int microbatches) {
  Schedule schedule = teacher_before_student("nemo-13065", ranks, microbatches);
  schedule.joint_teacher = true;
  return schedule;
}

}  // namespace plumbline
