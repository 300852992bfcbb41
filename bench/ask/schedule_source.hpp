// Source of the schedule of `schedule` and `simulate`: a name with sizes, or a file.
#pragma once

#include <string>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct ScheduleSource {
  std::string name_or_file;
  int pp = 1;
  int microbatches = 1;
  int chunks = 0;
  int group = 0;
  double memory_limit = 0;  // zb-auto
  bool transfers = false;

  /// Throws InputError for a group or a memory limit that the schedule does not follow.
  void check_limits() const;
  /// Throws InputError, also as check_limits().
  Schedule load() const;
  /// The same schedule by another name, and for schedules that are made for given times, those times.
  Schedule load(const std::string& name, const Costs* costs) const;
  /// The same for the simulator, with transfers as they take time. Those of a file with PyTorch's WAIT_SEND
  /// cells return at once, so that only computation waits for messages. They are left out, unless --transfers
  /// asks for transfers.
  Schedule load_to_simulate(const std::string& name, const Costs* costs) const;
};

/// One unit of time for F, I and W of a rank each, two for B; stages take their share. Transfers are free.
Costs unit_costs(const Schedule& schedule);

/// Ends in .csv or .json.
bool is_schedule_file(const std::string& name);
/// Throws InputError, with the nearest name, for neither a file nor a built-in schedule.
void check_schedule_name(const std::string& name);

}  // namespace plumbline
