// Times for generators whose order depends on them.
#pragma once

#include "analysis/simulate/costs.hpp"
#include "schedules/vocab_times.hpp"

namespace plumbline {

/// Times of passes and collectives on a machine: passes as means over stages, those of the vocabulary over
/// the `ranks`, of which each has one stage that carries them. Messages take nothing.
VocabTimes mean_times(const Costs& costs, int ranks);

}  // namespace plumbline
