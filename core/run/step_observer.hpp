// Who looks on while a rank executes a step: profilers and devices whose work is done after its submission.
#pragma once

#include <functional>
#include <vector>

#include "core/run/executor.hpp"
#include "core/trace/lane_span.hpp"

namespace plumbline {

/// Called on the rank's own thread. An observer must not throw because of missing data.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void step_begins(int /*index*/) {}
  /// `message` is the payload of a send or receive, 0 for anything else.
  virtual void action_begins(const Action& /*action*/, Bytes /*message*/) {}
  /// Both actions of an overlapped pair have begun; this one works from now on.
  virtual void action_goes_on(const Action& /*action*/) {}
  virtual void action_ends(const Action& /*action*/) {}
  /// After the rank's device has finished. `events` carry times since `origin` (as StepObserver's rank reads
  /// the common clock), `tensor_communication` the rank's time in collectives over the tensor group. An
  /// observer with better times, because the device works later than the host asks, puts them in.
  virtual void step_ends(Seconds /*origin*/, std::vector<Event>& /*events*/,
                         Seconds& /*tensor_communication*/) {}
  /// After step_ends: adds the spans of the rank's lanes, in times since `origin`.
  virtual void add_lanes(Seconds /*origin*/, std::vector<LaneSpan>& /*lanes*/) {}
};

/// Several observers as one: begun in order, ended in reverse, so that their ranges nest.
class StepObservers final : public StepObserver {
 public:
  /// Not owned; nullptr is left out.
  void add(StepObserver* observer) {
    if (observer != nullptr) observers_.push_back(observer);
  }
  void step_begins(int index) override {
    for (StepObserver* observer : observers_) observer->step_begins(index);
  }
  void action_begins(const Action& action, Bytes message) override {
    for (StepObserver* observer : observers_) observer->action_begins(action, message);
  }
  void action_goes_on(const Action& action) override {
    for (StepObserver* observer : observers_) observer->action_goes_on(action);
  }
  void action_ends(const Action& action) override {
    for (auto it = observers_.rbegin(); it != observers_.rend(); ++it) (*it)->action_ends(action);
  }
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override {
    for (auto it = observers_.rbegin(); it != observers_.rend(); ++it) {
      (*it)->step_ends(origin, events, tensor_communication);
    }
  }
  void add_lanes(Seconds origin, std::vector<LaneSpan>& lanes) override {
    for (StepObserver* observer : observers_) observer->add_lanes(origin, lanes);
  }

 private:
  std::vector<StepObserver*> observers_;
};

/// A program that tells an observer when its actions begin and end.
class ObservedProgram final : public StageProgram {
 public:
  ObservedProgram(StageProgram& program, StepObserver& observer) : program_(program), observer_(observer) {}

  void run(const Action& action) override {
    observer_.action_begins(action, Bytes{});
    program_.run(action);
  }
  bool runs_pairs() const override { return program_.runs_pairs(); }
  /// The second begins within the first, as ranges nest.
  void run_pair(const Action& first, const Action& second,
                const std::function<void(const Action&)>& goes_on) override {
    observer_.action_begins(first, Bytes{});
    observer_.action_begins(second, Bytes{});
    program_.run_pair(first, second, [&](const Action& action) {
      observer_.action_goes_on(action);
      goes_on(action);
    });
  }
  Matrix send_buffer(const Action& action) override {
    const Matrix buffer = program_.send_buffer(action);
    observer_.action_begins(action, buffer.bytes());
    return buffer;
  }
  Matrix receive_buffer(const Action& action) override {
    const Matrix buffer = program_.receive_buffer(action);
    observer_.action_begins(action, buffer.bytes());
    return buffer;
  }
  void finished(const Action& action) override {
    observer_.action_ends(action);
    program_.finished(action);
  }

 private:
  StageProgram& program_;
  StepObserver& observer_;
};

}  // namespace plumbline
