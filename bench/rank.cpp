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
#include "core/trace_files.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw Error(fmt::format("{}: cannot be written; expected a path in a writable folder", path));
}

void write_measurement(const MeasurementReport& measurement) {
  OrderedJson fragment;
  fragment["measurement"] = to_json(measurement);
  const char* path = std::getenv(kRecordOutVariable);
  if (path == nullptr) {
    fmt::print("{}\n", fragment.dump(2));
    return;
  }
  write_file(path, fragment.dump() + '\n');
}

}  // namespace

int run_as_rank(const RunConfig& config, const std::string& trace_file, int& argc, char**& argv) {
  const MpiSession session(argc, argv);
  return session.guard([&] {
    if (const auto reason = why_invalid(config)) throw InputError(*reason);
    if (const auto reason = why_unsupported(config)) throw InputError(*reason);
    MpiCommunicator communicator(config.layout());
    const auto operators = make_cpu_operators();
    const auto progress = [](int done, int all) { fmt::print(stderr, "step {} of {}\n", done, all); };
    const Schedule schedule = schedule_for(config);
    const training::TrainingResult result =
        training::train(config, schedule, *operators, communicator, communicator, host_memory(), progress);
    if (communicator.rank() == 0) {
      std::string note;
      const HardwareProfile hardware = hardware_of(config, note);
      write_measurement(report_of(result, config, hardware));
      if (!trace_file.empty()) {
        const Prediction prediction = predict(config, schedule, hardware);
        write_file(trace_file,
                   to_trace_json(schedule, {{"predicted", prediction.trace}, {"measured", result.trace}}));
      }
    }
    return static_cast<int>(ExitCode::done);
  });
}

}  // namespace plumbline
