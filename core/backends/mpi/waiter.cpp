// The two ways of waiting for a request.
#include "core/backends/mpi/waiter.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <ctime>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/handle.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

constexpr int kSpinTests = 50;
constexpr long kFirstSleepNs = 20'000;
constexpr unsigned long kTimerSlackNs = 1'000;  // the kernel's default of 50 us would double every sleep

}  // namespace

bool host_is_crowded(MPI_Comm world) {
  MpiComm host;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host.out()),
            "MPI_Comm_split_type");
  int ranks = 0;
  check_mpi(MPI_Comm_size(host.get(), &ranks), "MPI_Comm_size");
  // Bound ranks see one processor each: the host's share is the union.
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  cpu_set_t all;
  check_mpi(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, host.get()), "MPI_Allreduce");
  int processors = CPU_COUNT(&all);
  if (const int quota = processor_quota(); quota > 0 && quota < processors) processors = quota;
  const bool moves = CPU_COUNT(&mine) > 1;
  const int crowded_here = processors > 0 && ranks > processors && moves ? 1 : 0;
  int crowded = 0;
  check_mpi(MPI_Allreduce(&crowded_here, &crowded, 1, MPI_INT, MPI_MAX, host.get()), "MPI_Allreduce");
  return crowded != 0;
}

void drive_mpi() {
  // A probe that finds a message returns without a pass, so it asks where no message ever comes.
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

Waiter::Waiter(bool crowded, Seconds longest_sleep)
    : crowded_(crowded), longest_sleep_ns_(static_cast<long>(longest_sleep.value * 1e9)) {
  if (crowded) prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
}

void Waiter::wait(MPI_Request& request, MPI_Status* status, const char* call,
                  const std::function<void()>& meanwhile) const {
  if (!crowded_ && !meanwhile) {
    check_mpi(MPI_Wait(&request, status), call);
    return;
  }
  until([&] {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, status), call);
    if (done == 0 && meanwhile) meanwhile();
    return done != 0;
  });
}

void Waiter::until(const std::function<bool()>& done) const {
  timespec pause{0, kFirstSleepNs};
  for (int tests = 0; !done(); ++tests) {
    if (!crowded_ || tests < kSpinTests) continue;
    nanosleep(&pause, nullptr);
    if (pause.tv_nsec < longest_sleep_ns_) pause.tv_nsec += pause.tv_nsec / 16;
  }
}

}  // namespace plumbline
