// One rank of `plumbline run`.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "bench/evaluation.hpp"
#include "bench/plan.hpp"
#include "bench/reports.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

void write_measurement(const MeasurementReport& measurement) {
  OrderedJson fragment;
  fragment["measurement"] = to_json(measurement);
  const char* path = std::getenv(kRecordOutVariable);
  if (path == nullptr) {
    fmt::print("{}\n", fragment.dump(2));
    return;
  }
  std::ofstream out(path, std::ios::trunc);
  out << fragment.dump() << '\n';
  out.close();
  if (!out) throw Error(fmt::format("cannot write the measurement to {}", path));
}

}  // namespace

int run_as_rank(const RunConfig& config, int& argc, char**& argv) {
  const MpiSession session(argc, argv);
  return session.guard([&] {
    if (const auto reason = why_invalid(config)) throw InputError(*reason);
    if (const auto reason = why_unsupported(config)) throw InputError(*reason);
    MpiCommunicator communicator(config.layout());
    const auto operators = make_cpu_operators();
    const auto progress = [](int done, int all) { fmt::print(stderr, "step {} of {}\n", done, all); };
    const training::TrainingResult result =
        training::train(config, schedule_for(config), *operators, communicator, host_memory(), progress);
    if (communicator.rank() == 0) {
      std::string note;
      write_measurement(report_of(result, config, hardware_of(config, note)));
    }
    return static_cast<int>(ExitCode::done);
  });
}

}  // namespace plumbline
