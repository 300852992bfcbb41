#include "core/run/machine_load.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <limits>

#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr Seconds kUnknown{std::numeric_limits<double>::quiet_NaN()};

/// The beginning of a /proc file, without the allocations of a stream; empty when it cannot be read.
class ProcText {
 public:
  explicit ProcText(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t got = ::read(file, text_.data(), text_.size() - 1);
    ::close(file);
    if (got > 0) text_[static_cast<std::size_t>(got)] = '\0';
  }
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 256> text_{};
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// NaN if the system does not report it.
double processor_frequency() {
  std::array<char, 96> path{};
  std::snprintf(path.data(), path.size(), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
                sched_getcpu());
  double kilohertz = 0;
  const ProcText frequency(path.data());
  return std::sscanf(frequency.text(), "%lf", &kilohertz) == 1 ? 1e3 * kilohertz : kUnknown.value;
}

}  // namespace

LoadReading read_load() {
  LoadReading reading;
  reading.at = monotonic_now();
  reading.busy = reading.stolen = reading.waited = kUnknown;

  unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0,
                     stolen = 0;
  const ProcText machine("/proc/stat");
  if (std::sscanf(machine.text(), "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                  &waiting, &interrupts, &soft, &stolen) == 8) {
    const auto tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    reading.busy = {tick * static_cast<double>(user + nice + system + interrupts + soft)};
    reading.stolen = {tick * static_cast<double>(stolen)};
  }
  unsigned long long ran = 0, waited = 0;
  const ProcText own("/proc/self/schedstat");
  if (std::sscanf(own.text(), "%llu %llu", &ran, &waited) == 2)
    reading.waited = {1e-9 * static_cast<double>(waited)};
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  reading.own = {seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)};
  reading.involuntary = usage.ru_nivcsw;
  reading.frequency = processor_frequency();
  reading.affinity = thread_affinity();
  return reading;
}

RankLoad difference(const LoadReading& later, const LoadReading& earlier) {
  return {later.at - earlier.at,
          later.busy - earlier.busy,
          later.stolen - earlier.stolen,
          later.own - earlier.own,
          later.waited - earlier.waited,
          static_cast<double>(later.involuntary - earlier.involuntary),
          later.frequency,
          later.affinity};
}

}  // namespace plumbline
