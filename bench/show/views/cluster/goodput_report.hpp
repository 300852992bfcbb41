// Goodput of a month of training, as text and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/published/verdict.hpp"
#include "analysis/reliability/goodput.hpp"
#include "analysis/reliability/published_checks.hpp"

namespace plumbline {

/// Effective time, expected and simulated with percentiles; the time breakdown; the checkpoint's interval by
/// several rules; the effect of single changes; tokens, GPU-hours, energy and cost. `memory`: verdict on the
/// step, if it was predicted.
std::string goodput_text(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory);
/// {"gpus", "nodes", "fleet", "between_failures_s", ...,
///   "effective": {"expected", "simulated", "p5", "p50", "p95"}, "time": {...}, "intervals": [...],
///   "changes": [...], "tokens_per_day": {...}, "verdict", "chance"}; seconds, shares of 1.
std::string goodput_json(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory);

/// The same as a page, with the effective time over the interval and over the trials as pictures.
std::string goodput_page(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory);

/// The published checks, one line each: printed, computed, and their agreement within the rounding.
std::string published_checks_text(const std::vector<PublishedCheck>& checks);
std::string published_checks_json(const std::vector<PublishedCheck>& checks);

}  // namespace plumbline
