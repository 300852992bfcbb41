#include "analysis/published/verdict.hpp"

#include <fmt/format.h>

#include "analysis/published/comparable_figures.hpp"

namespace plumbline {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::tight:
      return "tight";
    case Verdict::does_not_fit:
      return "does not fit";
    case Verdict::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string MemoryVerdict::text() const {
  if (word != Verdict::tight || !chance) return std::string(name_of(word));
  return fmt::format("{} ({:.0f} %)", name_of(word), 100 * *chance);
}

MemoryVerdict verdict_of(const Fit& fit, std::optional<double> chance) {
  if (fit.limit.value == 0) return {};
  if (!fit.fits) return {Verdict::does_not_fit, chance};
  return {chance && *chance > kSurelyFits ? Verdict::tight : Verdict::fits, chance};
}

MemoryVerdict verdict_of(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit) {
  return verdict_of(fit, chance_beyond(config, hardware, fit));
}

}  // namespace plumbline
