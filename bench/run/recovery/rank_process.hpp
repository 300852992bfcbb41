// The processes of a run's ranks on this host, and their injuries.
#pragma once

#include <sys/types.h>

#include <string>

#include "bench/run/recovery/failure_spec.hpp"

namespace plumbline {

/// The process of a world rank among those whose environment has `mark` ("NAME=value", of one run only); 0
/// when there is none.
pid_t process_of_rank(const std::string& mark, int rank);

/// False when the process has ended meanwhile.
bool injure(pid_t process, Injected kind);
/// Ends a full disk; nothing happens to a process that is gone.
void let_write(pid_t process);

}  // namespace plumbline
