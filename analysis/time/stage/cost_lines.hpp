// Lines of the explanation of a stage's time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/time/call_lanes.hpp"

namespace plumbline {

/// One line of the explanation of a stage's time.
struct CostLine {
  int stage = 0;
  /// forward | backward | backward input | backward weight | teacher forward | scores | scores backward |
  /// input layer | input layer backward | step, or an overlapped pair, such as 0F+0B. A pair's phase has its
  /// expert exchanges, which the lines of its two actions show as they are alone.
  std::string phase;
  std::string label;
  std::int64_t count = 0;
  Seconds seconds;  // all `count` calls; the exposed part of those that overlap with computation
  Flops flops;
  Seconds hidden;    // of collectives: the part hidden behind computation, not included in `seconds`
  Seconds measured;  // part of `seconds` from operators measured on this accelerator, or interpolated
};

/// The lines of one phase of a stage: one per label.
class CostLines {
 public:
  /// Appends to `lines`, which must outlive this.
  CostLines(std::vector<CostLine>& lines, int stage, std::string phase);

  /// `measured`: the time is, or was interpolated between measured sizes.
  void add(const OperatorCall& call, Seconds time, bool measured = false);
  /// `hidden`: its time besides `time`, behind computation.
  CostLine& add(const std::string& label, std::int64_t count, Seconds time, Flops flops = {},
                Seconds hidden = {});
  /// Collectives that run alongside computation, and by how much they slow it.
  void add(const std::vector<Alongside>& alongside);

 private:
  CostLine& line_of(const std::string& label);

  std::vector<CostLine>& lines_;
  std::size_t first_;
  int stage_;
  std::string phase_;
};

/// Appends the lines from number `begin` up to `end` once more, as those of `stage`.
void repeat_lines(std::vector<CostLine>& lines, std::size_t begin, std::size_t end, int stage);

}  // namespace plumbline
