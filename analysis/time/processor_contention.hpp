// Load of a machine by the ranks of a run: processors that ranks share, or that collectives hold.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/time/tables/load.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// For a configuration that splits the vocabulary, on an accelerator of analysis/hardware.
double collective_contention(const RunConfig& config, const HardwareProfile& hardware,
                             const Software& software);
/// Layout, contention and the slowest GPU alone: no processors are shared.
Load least_load(const RunConfig& config, const HardwareProfile& hardware, const Software& software);
/// Everything but the working sets. While a rank computes, its tensor and data-parallel neighbours do too. A
/// rank of another pipeline coordinate computes for 1 - (idle ÷ compute) of the time, with equal stages: for
/// 1F1B that is 1 - (P-1)/M.
Load load_of(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
             const Software& software);

}  // namespace plumbline
