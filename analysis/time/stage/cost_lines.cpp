#include "analysis/time/stage/cost_lines.hpp"

#include <algorithm>
#include <utility>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

CostLines::CostLines(std::vector<CostLine>& lines, int stage, std::string phase)
    : lines_(lines), first_(lines.size()), stage_(stage), phase_(std::move(phase)) {}

CostLine& CostLines::line_of(const std::string& label) {
  const auto line = std::find_if(lines_.begin() + static_cast<std::ptrdiff_t>(first_), lines_.end(),
                                 [&](const CostLine& known) { return known.label == label; });
  return line != lines_.end() ? *line
                              : lines_.emplace_back(CostLine{stage_, phase_, label, 0, {}, {}, {}, {}});
}

void CostLines::add(const OperatorCall& call, Seconds time, bool measured) {
  CostLine& line = add(label_of(call), call.count, time, flops_of(call));
  if (measured) line.measured += time;
}

CostLine& CostLines::add(const std::string& label, std::int64_t count, Seconds time, Flops flops,
                         Seconds hidden) {
  CostLine& line = line_of(label);
  line.count += count;
  line.seconds += time;
  line.flops += flops;
  line.hidden += hidden;
  return line;
}

void CostLines::add(const std::vector<Alongside>& alongside) {
  Seconds slower;
  for (const Alongside& part : alongside) {
    add(part.label, 0, part.exposed, {}, part.all - part.exposed);
    slower += part.slower;
  }
  if (slower.value > 0) add("slower alongside collectives", 1, slower);
}

void repeat_lines(std::vector<CostLine>& lines, std::size_t begin, std::size_t end, int stage) {
  for (std::size_t i = begin; i < end; ++i) {
    CostLine line = lines[i];
    line.stage = stage;
    lines.push_back(std::move(line));
  }
}

}  // namespace plumbline
