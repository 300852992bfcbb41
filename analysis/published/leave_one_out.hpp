// How much a table's error depends on having been seen: constants chosen without it, then held against it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/published/published.hpp"

namespace plumbline::cluster {

struct LeftOut {
  std::string table;
  double shipped = 0;           // mean absolute error of step times with the shipped constants
  double chosen = 0;            // with the constants that suit the other tables best
  std::vector<double> factors;  // of the calibratable constants, in their order
};

/// Names of the constants that are chosen: shares and times of the accelerator that no datasheet prints.
const std::vector<std::string>& calibratable_constants();

/// For every table with step times: each constant's factor out of {0.90, 0.95, 1, 1.05, 1.10} that minimises
/// the mean of the other tables' errors, one constant at a time around the shipped values; then the error of
/// the table left out with all of them. Tables count the same, whatever their rows. `progress`, where given,
/// is called with how many of the trials are done. Throws InputError when fewer than two tables have step times.
std::vector<LeftOut> leave_one_out(const std::vector<PublishedTable>& tables, const Profiles& profiles,
                                   const ScheduleMakers& make,
                                   const std::function<void(int done, int all)>& progress = {});

}  // namespace plumbline::cluster
