// Leave-one-out errors: constants chosen without a table, then held against it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/published/published.hpp"

namespace plumbline {

struct LeftOut {
  std::string table;
  double shipped = 0;           // mean absolute error of step times with the shipped constants
  double chosen = 0;            // with the constants that suit the other tables best
  std::vector<double> factors;  // of the calibratable constants, in their order
};

/// Names of the constants that are chosen: shares and times of the accelerator that no datasheet prints.
const std::vector<std::string>& calibratable_constants();

/// Fits each constant's factor to all tables with step times but one: out of {0.90, 0.95, 1, 1.05, 1.10}, one
/// constant at a time around the shipped values. Then gives the error of the left-out table with all factors.
/// Tables have the same weight, whatever their rows. `progress`, if given, is called with the number of
/// trials done. Throws InputError when fewer than two tables have step times.
std::vector<LeftOut> leave_one_out(const std::vector<PublishedTable>& tables, const Profiles& profiles,
                                   const ScheduleMakers& make,
                                   const std::function<void(int done, int all)>& progress = {});

}  // namespace plumbline
