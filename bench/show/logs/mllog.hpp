// MLPerf's log lines (":::MLLOG {…}") of a measured record.
#pragma once

#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Lines of one run, in the order of their times (StepClock):
///   hyperparameters with the keys of mlperf_logging's constants, POINT_IN_TIME;
///   run_start and run_stop with the status success or aborted, INTERVAL_START and INTERVAL_END;
///   tracked_stats of every step: loss, train_step_time in s and throughput in samples/s, as far as known;
///   figures of the run in the namespace "plumbline": keys of run_figures(), the measured value, and the
///   predicted one as metadata; null: unknown.
std::string mllog_lines(const Record& record, double end_unix_s);

}  // namespace plumbline
