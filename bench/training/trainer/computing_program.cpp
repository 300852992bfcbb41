#include "bench/training/trainer/computing_program.hpp"

#include <algorithm>

#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/processor_time.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kMostComputingTimes = std::size_t{1} << 22;  // of all ranks together

}  // namespace

Seconds ComputingProgram::waited() const {
  Seconds waited = stages_.tensor_communication() + stages_.data_communication() + stages_.host_waits();
  for (const Seconds wait : stages_.vocabulary_waits()) waited += wait;
  return waited;
}

template <class Work>
std::optional<Seconds> ComputingProgram::computing(const Work& work) const {
  if (worked_) {
    const Seconds before = worked_();
    work();
    return worked_() - before;
  }
  if (stages_.context().config.machine.backend != Backend::cpu) {
    work();
    return std::nullopt;
  }
  const Seconds waited_before = waited();
  const Seconds start = communicator_.now();
  const Seconds worked_before = processor_time();
  work();
  const Seconds worked = processor_time() - worked_before;
  const Seconds own = communicator_.now() - start - (waited() - waited_before);
  return std::max(Seconds{0}, std::min(own, worked));
}

void ComputingProgram::run(const Action& action) {
  if (!is_compute(action.type)) return stages_.run(action);
  if (const auto seconds = computing([&] { stages_.run(action); })) seconds_.push_back(seconds->value);
}

void ComputingProgram::run_pair(const Action& first, const Action& second,
                                const std::function<void(const Action&)>& goes_on) {
  const auto seconds = computing([&] { stages_.run_pair(first, second, goes_on); });
  if (seconds) seconds_.insert(seconds_.end(), 2, seconds->value / 2);
}

std::vector<std::vector<double>> gather_computing(const Schedule& schedule, const std::vector<double>& mine,
                                                  int steps, Communicator& control) {
  const Layout& layout = control.layout();
  std::vector<std::size_t> of_rank;  // by pipeline rank
  of_rank.reserve(schedule.actions.size());
  std::size_t all = 0;
  for (const auto& actions : schedule.actions) {
    const auto computing = std::count_if(actions.begin(), actions.end(),
                                         [](const Action& action) { return is_compute(action.type); });
    of_rank.push_back(static_cast<std::size_t>(computing) * static_cast<std::size_t>(steps));
    all += of_rank.back() * static_cast<std::size_t>(layout.world() / schedule.ranks);
  }
  // The same on all ranks: either all noted times or none.
  const std::size_t expected = of_rank[static_cast<std::size_t>(layout.coordinates(control.rank()).pipeline)];
  if (all == 0 || all > kMostComputingTimes || mine.size() != expected) return {};
  std::vector<std::vector<double>> seconds;
  seconds.reserve(static_cast<std::size_t>(layout.world()));
  for (int rank = 0; rank < layout.world(); ++rank) {
    std::vector<double> values(of_rank[static_cast<std::size_t>(layout.coordinates(rank).pipeline)]);
    if (control.rank() == rank) values = mine;
    broadcast_values(control, rank, values);
    seconds.push_back(std::move(values));
  }
  return seconds;
}

}  // namespace plumbline::training
