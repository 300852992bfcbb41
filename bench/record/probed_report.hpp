// The prediction at the speed that the machine had when a cell was measured.
#pragma once

#include <optional>

#include "core/base/by_class.hpp"
#include "core/base/json_keys.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

struct ProbedReport {
  ByClass before, after;  // how many times longer than calibrated, straight before and after the cell
  ByClass speed;          // of the cell by these (bench/evaluate/speed_of_moment.hpp)
  double stretch = 1;     // how many times longer the step took because others had its processors
  StepTime time;          // with both
};

OrderedJson to_json(const ByClass& values);
OrderedJson to_json(const ProbedReport& probed);
/// The object probed of `keys`, or nothing; throws InputError as parse_record does.
std::optional<ProbedReport> probed_of(const OrderedJsonKeys& keys);

}  // namespace plumbline
