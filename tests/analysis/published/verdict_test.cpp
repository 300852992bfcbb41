// Verdicts on memory: four words, and their errors on the peaks that others published.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/verdict.hpp"

namespace plumbline::verdict_test {
namespace {

Fit fit_of(std::int64_t needed, std::int64_t limit) {
  Fit fit;
  fit.needed = fit.tensors = {needed};
  fit.limit = {limit};
  fit.fits = limit == 0 || needed <= limit;
  return fit;
}

TEST(MemoryVerdicts, AreFourWords) {
  EXPECT_EQ(verdict_of(fit_of(10, 0), 0.3).text(), "unknown");
  EXPECT_EQ(verdict_of(fit_of(10, 20), {}).text(), "fits");
  EXPECT_EQ(verdict_of(fit_of(10, 20), kSurelyFits).text(), "fits");
  EXPECT_EQ(verdict_of(fit_of(10, 20), 0.23).text(), "tight (23 %)");
  EXPECT_EQ(verdict_of(fit_of(30, 20), 0.23).text(), "does not fit");
  EXPECT_EQ(verdict_of(fit_of(30, 20), {}).text(), "does not fit");
}

/// Published peaks that exceed a limit just below them although the verdict there is that the run fits.
struct Wrong {
  int rows = 0;
  int wrong = 0;
  double share() const { return static_cast<double>(wrong) / rows; }
};

Wrong wrong_verdicts(bool leave_sources_out) {
  constexpr double kPredicted = 1e9;  // bytes
  Wrong all;
  for (const KnownRun& run : known_runs()) {
    if (run.quantity != "peak_bytes") continue;
    const ComparableRuns runs(known_runs(), run.kind, "peak_bytes", leave_sources_out ? run.origin : "");
    if (!runs.interval()) continue;
    ++all.rows;
    const Fit fit = fit_of(1'000'000'000, static_cast<std::int64_t>(kPredicted * run.ratio * (1 - 1e-6)));
    all.wrong += verdict_of(fit, runs.share_beyond(fit)).word == Verdict::fits ? 1 : 0;
  }
  return all;
}

TEST(MemoryVerdicts, ThatFitAreWrongInOneOfAHundredPublishedPeaks) {
  const Wrong shown = wrong_verdicts(false);
  EXPECT_GT(shown.rows, 300);
  EXPECT_LE(shown.share(), 0.01) << shown.wrong << " of " << shown.rows;
  const Wrong unseen = wrong_verdicts(true);
  EXPECT_GT(unseen.rows, 300);
  EXPECT_LE(unseen.share(), 0.035) << unseen.wrong << " of " << unseen.rows;
}

}  // namespace
}  // namespace plumbline::verdict_test
