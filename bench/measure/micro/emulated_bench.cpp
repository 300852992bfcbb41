// Actions per second of a rank on the emulated backend when nothing takes time: the real executor, training
// code, arena and messages.
//   mpirun -n RANKS micro_emulated [CONFIG keys as key=value ...]
// Every rank is a pipeline stage of one Llama-3.1-8B layer, 2000 micro-batches.
#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/micro/config_arguments.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/config/config_checks.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {
namespace {

int run(int argc, char** argv, const MpiSession& session) {
  ConfigDraft draft;
  draft.config.model = *find_preset("llama-3.1-8b");
  draft.config.model.layers = session.ranks();
  draft.config.machine.backend = Backend::emulated;
  draft.config.machine.hardware = "h100-sxm-80gb";
  draft.config.machine.emulated_time_factor = 0;
  draft.config.parallel.pipeline = session.ranks();
  draft.config.batch.seq_length = 4096;
  draft.config.batch.global_batch_size = 2000;
  const RunConfig config = config_from_arguments(draft, argc, argv);
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  const Schedule schedule = schedule_for(config);
  MpiCommunicator control(config.layout());
  EmulatedClock clock(0);
  EmulatedCommunicator communicator(config.layout(), clock, {});
  const auto operators = make_emulated_operators(clock, {});
  const training::TrainingResult result =
      training::train(config, schedule, *operators, communicator, control, untouched_memory(), {});
  if (session.rank() != 0) return 0;
  std::size_t compute = 0;
  std::size_t all = 0;
  for (const Action& action : schedule.actions.front()) {
    ++all;
    compute += is_compute(action.type) ? 1 : 0;
  }
  const Seconds best = *std::min_element(result.step_times.begin(), result.step_times.end());
  fmt::print(
      "{} ranks, {} actions of a rank ({} compute) in {:.2f} ms: {:.0f} actions/s per rank, best of {}\n",
      session.ranks(), all, compute, best.value * 1e3, static_cast<double>(all) / best.value,
      result.step_times.size());
  return 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  const plumbline::MpiSession session(argc, argv);
  return session.guard([&] { return plumbline::run(argc, argv, session); });
}
