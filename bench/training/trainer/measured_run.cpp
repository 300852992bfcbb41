#include "bench/training/trainer/measured_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/training/trainer/busy_share.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/not_finite.hpp"
#include "bench/training/weights/weight_files.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/run/processors.hpp"
#include "core/trace/lane_pieces.hpp"

namespace plumbline::training {
Traffic difference(const Traffic& later, const Traffic& earlier) {
  Traffic result = later;
  result.messages_sent -= earlier.messages_sent;
  result.point_to_point_sent -= earlier.point_to_point_sent;
  for (std::size_t i = 0; i < result.groups.size(); ++i) {
    GroupTraffic& group = result.groups[i];
    const GroupTraffic& before = earlier.groups[i];
    group.calls -= before.calls;
    group.all_reduced -= before.all_reduced;
    group.all_gathered -= before.all_gathered;
    group.reduce_scattered -= before.reduce_scattered;
    group.broadcast -= before.broadcast;
    group.exchanged -= before.exchanged;
  }
  return result;
}

MeasuredRun::MeasuredRun(const RunConfig& config, const Schedule& schedule, Operators& operators,
                         Communicator& communicator, Communicator& control, Arena& arena,
                         StepObserver* observer, const std::optional<FoundCheckpoint>& checkpoint,
                         WorkClock worked, HostLane* host)
    : schedule_(schedule),
      operators_(operators),
      communicator_(communicator),
      control_(control),
      stages_(config, schedule, operators, communicator, arena, host),
      computing_(stages_, communicator, std::move(worked)) {
  observers_.add(&load_);
  observers_.add(observer);
  if (config.machine.backend == Backend::emulated) {
    // Of data only the lengths of packed conversations matter.
    if (config.batch.packed_sequence)
      lengths_.emplace(config, communicator.layout().coordinates(communicator.rank()).data);
    return;
  }
  // A checkpoint of adapters has no frozen weights.
  if (!checkpoint || config.finetune.lora()) load_weights(stages_, initial_weights(config));
  if (checkpoint) restore(stages_, *checkpoint);
  // Other numbers than the student's: models of one shape would have nothing to learn from each other.
  if (config.distillation.teacher) {
    load_teacher_weights(
        stages_, config.distillation.teacher_weights.empty()
                     ? random_weights(config.measure.seed + 1, config.distillation.teacher->init_std)
                     : checkpoint_weights(config.distillation.teacher_weights, *config.distillation.teacher));
  }
  data_.emplace(config, communicator.layout().coordinates(communicator.rank()).data);
}

StepMeasurement MeasuredRun::step(int index) {
  start(index);
  load_.begin();
  observers_.step_begins(index);
  communicator_.barrier(Group::world);
  const Seconds origin = from_first_rank(control_, communicator_.now());
  const Traffic before = communicator_.traffic();
  StepMeasurement step;
  ObservedProgram program(computing_, observers_);
  step.events = execute(schedule_, program, communicator_, origin, receives());
  operators_.synchronize();
  traffic_ = difference(communicator_.traffic(), before);
  const std::vector<double> ends = from_every_rank(control_, (communicator_.now() - origin).value);
  step.tensor_communication = stages_.tensor_communication();
  step.data_communication = stages_.data_communication();
  step.host_waits = stages_.host_waits();
  step.collectives = stages_.collectives(origin);  // first: a device's waits are known afterwards
  step.vocabulary_waits = stages_.vocabulary_waits();
  step.time = {*std::max_element(ends.begin(), ends.end())};
  load_.end();
  step.load = step_load_of(from_every_rank(control_, load_.whole()), machine_processors());
  step.lost = lost_by_part(from_every_rank(control_, load_.parts()));
  observers_.step_ends(origin, step.events, step.tensor_communication);
  note_lanes(origin, step);
  return step;
}

void MeasuredRun::check_finite(int index, int steps, double loss) {
  const bool updated = std::isfinite(stages_.gradient_norm()) || stages_.loss_scale();
  if (!data_ || (std::isfinite(loss) && updated)) return;
  explain_not_finite(stages_, control_, loss, index + 1, steps, [&](StageProgram& program) {
    stages_.repeat_step();
    start(index);
    execute(schedule_, program, communicator_, communicator_.now(), receives());
  });
}

Receives MeasuredRun::receives() const {
  return stages_.context().config.parallel.effective_overlap_p2p_comm() ? Receives::ahead
                                                                        : Receives::in_their_turn;
}

void MeasuredRun::note_lanes(Seconds origin, StepMeasurement& step) {
  std::vector<LaneSpan> all;
  observers_.add_lanes(origin, all);
  LanePieces pieces(step.time / kLanePieces);
  for (const LaneSpan& span : all) {
    pieces.add(span);
    add(step.lane_sums, span);
  }
  step.lanes = pieces.take();
}

void MeasuredRun::start(int index) {
  const StepTokens tokens = data_ ? data_->step(index) : StepTokens();
  if (data_) {
    stages_.use_conversations(tokens.conversations);
    stages_.start_step(tokens.inputs.data(), tokens.targets.data(), tokens.counted, tokens.ahead);
  } else {
    if (lengths_) stages_.use_conversations(lengths_->conversations(index));
    stages_.start_step(nullptr, nullptr);
  }
  operators_.synchronize();
}

}  // namespace plumbline::training
