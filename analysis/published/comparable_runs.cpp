#include "analysis/published/comparable_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace plumbline {
namespace {

constexpr double kOutsideEachEnd = 0.1;  // of an 80 % interval
constexpr double kNear = 0.1;            // least resemblance of a comparable run
constexpr int kFewestRows = 10;
constexpr int kFewestOrigins = 3;

double squared(double value) {
  return value * value;
}
/// Squared distance in doublings, in units of `unit` of them.
double apart(double one, double other, double unit) {
  return squared(std::log2(one / other) / unit);
}

/// "megatron" of megatron-core-2025.
std::string_view family(std::string_view software) {
  return software.substr(0, software.find('-'));
}
/// The year in a release's name; 0: it has none.
int year(std::string_view software) {
  const std::size_t at = software.find("-20");
  if (at == std::string_view::npos || at + 5 > software.size()) return 0;
  int value = 0;
  for (const char digit : software.substr(at + 1, 4)) {
    if (digit < '0' || digit > '9') return 0;
    value = 10 * value + (digit - '0');
  }
  return value;
}

double software_apart(const std::string& one, const std::string& other) {
  if (one == other) return 0;
  const int years = year(one) > 0 && year(other) > 0 ? year(one) - year(other) : 0;
  return (family(one) == family(other) ? 0.5 : 2) + squared(years / 2.0);
}

}  // namespace

double resemblance(const RunKind& one, const RunKind& other) {
  double distance = apart(one.gpus, other.gpus, 3) + apart(one.tokens_per_gpu, other.tokens_per_gpu, 6) +
                    apart(one.peak_tflops, other.peak_tflops, 1.5) +
                    software_apart(one.software, other.software);
  if (one.hardware != other.hardware) distance += 0.5;
  if (one.bits != other.bits) distance += 1;
  return std::exp(-distance / 2);
}

ComparableRuns::ComparableRuns(const std::vector<KnownRun>& known, const RunKind& run,
                               const std::string& quantity, const std::string& left_out) {
  struct Origin {
    double most = 0;
    double sum = 0;
    int near = 0;
    std::vector<Weighted> runs;
  };
  std::map<std::string, Origin> origins;
  double most = 0;
  for (const KnownRun& other : known) {
    if (other.quantity != quantity || other.kind.mixture != run.mixture) continue;
    if (!left_out.empty() && is_same_origin(other.origin, left_out)) continue;
    const double weight = resemblance(run, other.kind);
    Origin& origin = origins[other.origin];
    origin.most = std::max(origin.most, weight);
    origin.sum += weight;
    origin.near += weight >= kNear ? 1 : 0;
    origin.runs.push_back({other.ratio, weight});
    if (weight > most) nearest_ = &other;
    most = std::max(most, weight);
  }
  for (const auto& [name, origin] : origins) {
    if (origin.sum <= 0) continue;
    near_.rows += origin.near;
    near_.origins += origin.near > 0 ? 1 : 0;
    weight_ += origin.most;
    for (const Weighted& each : origin.runs)
      runs_.push_back({each.ratio, each.weight * origin.most / origin.sum});
  }
  std::sort(runs_.begin(), runs_.end(), [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
}

double ComparableRuns::ratio_at(double share) const {
  double sum = 0;
  for (const Weighted& run : runs_) {
    sum += run.weight;
    if (sum >= share * weight_) return run.ratio;
  }
  return runs_.back().ratio;
}

std::optional<ErrorInterval> ComparableRuns::interval() const {
  if (near_.rows < kFewestRows || near_.origins < kFewestOrigins) return std::nullopt;
  ErrorInterval interval = near_;
  interval.low = ratio_at(kOutsideEachEnd);
  interval.high = ratio_at(1 - kOutsideEachEnd);
  return interval;
}

double ComparableRuns::share_beyond(const Fit& fit) const {
  if (fit.limit.value == 0 || fit.tensors.value == 0 || weight_ <= 0) return 0;
  const Bytes beside = fit.needed - fit.tensors;  // of the process, not of its tensors
  const double room =
      static_cast<double>((fit.limit - beside).value) / static_cast<double>(fit.tensors.value);
  double beyond = 0;
  for (const Weighted& run : runs_) beyond += run.ratio > room ? run.weight : 0;
  return beyond / weight_;
}

std::vector<HeldOutTable> hold_out_tables(const std::vector<ComparedTable>& tables,
                                          const std::vector<KnownRun>& known, const std::string& quantity) {
  std::vector<HeldOutTable> result;
  for (const ComparedTable& table : tables) {
    HeldOutTable held{table.name};
    for (const ComparedRow& row : table.rows) {
      if (row.quantity != quantity || row.traits.kind.software.empty()) continue;
      const auto interval =
          ComparableRuns(known, row.traits.kind, quantity, origin_of(row.traits.source)).interval();
      if (!interval) {
        ++held.incomparable;
        continue;
      }
      const double low = interval->low * row.low();
      const double high = interval->high * row.high();
      ++held.rows;
      held.inside += row.published >= low && row.published <= high ? 1 : 0;
      held.width += (high - low) / row.predicted;
    }
    if (held.rows > 0) held.width /= held.rows;
    if (held.rows + held.incomparable > 0) result.push_back(std::move(held));
  }
  return result;
}

}  // namespace plumbline
