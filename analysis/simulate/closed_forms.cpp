#include "analysis/simulate/closed_forms.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// Interleaved 1F1B on rank 0: all forwards of the warm-up and the first of the steady state.
double interleaved_peak(int p, int m, int v) {
  return std::min((2.0 * (p - 1) + (v - 1.0) * p + 1) / v, static_cast<double>(m));
}

}  // namespace

std::optional<ClosedForm> closed_form(std::string_view schedule, int ranks, int microbatches, int chunks,
                                      RankTimes times) {
  const double p = ranks;
  const double m = microbatches;
  const Seconds f = times.forward;
  const Seconds b = times.backward_input;
  const Seconds w = times.backward_weight;
  const Seconds t = times.teacher_forward;
  const Seconds whole = f + b + w;
  const Seconds classic = whole * (p - 1);
  const bool equal_parts = f == b && b == w;
  if (schedule == "gpipe") return ClosedForm{classic, classic, m};
  if (schedule == "1f1b") return ClosedForm{classic, classic, std::min(p, m)};
  if (schedule == "interleaved" && microbatches % ranks == 0) {
    const Seconds bubble = classic / chunks;
    return ClosedForm{bubble, bubble, interleaved_peak(ranks, microbatches, chunks)};
  }
  if (schedule == "zb-h1" && microbatches >= ranks && w <= f && w <= b) {
    const Seconds bubble = (f + b - w) * (p - 1);
    return ClosedForm{bubble, bubble, p};
  }
  if (schedule == "zb-h2" && w <= f && w <= b && f + b - 2 * w <= f) {
    const Seconds idle = (f + b - 2 * w) * (p - 1);
    return ClosedForm{f * (p - 1), idle, 2 * p - 1};
  }
  if (schedule == "zb-v" && equal_parts && microbatches >= 2 * ranks - 1) {
    return ClosedForm{f * (p - 1) / 2, Seconds{0}, p};
  }
  if (schedule == "dualpipe" && equal_parts) {
    const Seconds pair = whole * times.overlap_factor;
    return ClosedForm{(pair + b + w - 3 * w) * (p / 2 - 1), (pair + b + w - 3 * w) * (p / 2 - 1), p + 1};
  }
  if (schedule == "dualpipev" && equal_parts) {
    // Stages half as long, twice as many.
    const Seconds pair = whole * times.overlap_factor;
    return ClosedForm{(pair + b + w - 3 * w) * (p - 1) / 2, (pair + b + w - 3 * w) * (p - 1) / 2, p + 0.5};
  }
  if (schedule == "nemo-2504") {
    const Seconds bubble = (std::max(f, t) + b + w) * (p - 1);
    return ClosedForm{bubble, bubble, std::min(p, m)};
  }
  if (schedule == "nemo-13065") {
    const Seconds bubble = (t + whole) * (p - 1);
    return ClosedForm{bubble, bubble, std::min(p, m)};
  }
  return std::nullopt;
}

}  // namespace plumbline
