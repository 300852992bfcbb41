// Layout of the prices of a plan's nodes; for simulation_plan.cpp and simulation_prices.cpp only.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.hpp"

namespace plumbline {

// Price layout: two fixed entries; per stage one entry per action type, one for its last backward and one for
// its first F (the last two on request); then overlapped pairs. Next are four for the links (for every
// sending rank where these differ): within and between nodes, each without and with a teacher's payload. Last
// come the collectives of vocabulary parallelism by VocabularyCall.
constexpr std::uint32_t kTypes = kActionTypes;
constexpr std::uint32_t kFree = 0;         // takes no time
constexpr std::uint32_t kReceiveCopy = 1;  // an implicit receive's work on the receiving rank
constexpr std::uint32_t kFixed = 2;
constexpr std::uint32_t kTeacher = 1;
constexpr std::uint32_t kBetweenNodes = 2;
constexpr std::uint32_t kLinkPrices = 4;

inline std::uint32_t price_of(int stage, ActionType type) {
  return kFixed + static_cast<std::uint32_t>(stage) * kTypes + static_cast<std::uint32_t>(type);
}

}  // namespace plumbline
