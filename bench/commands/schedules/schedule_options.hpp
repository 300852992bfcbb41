// Options of the commands `schedule` and `simulate`.
#pragma once

#include <CLI/CLI.hpp>

#include "bench/ask/schedule_source.hpp"

namespace plumbline {

/// --pp, --microbatches, --chunks, --group, --memory-limit, --transfers
void add_schedule_options(CLI::App& command, ScheduleSource& source);

}  // namespace plumbline
