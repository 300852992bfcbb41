// Memory and traffic of a step against their prediction. Every function expects equality to the byte.
#pragma once

#include <optional>

#include "analysis/work/routing/routed_rows.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {

/// Rows of the teacher's experts of one Layout::sender in that step; nothing without such a teacher.
std::optional<RoutedRows> teacher_rows(const RunConfig& config, const Schedule& schedule,
                                       const std::vector<RoutedTokens>& routing, int sender);
const RoutedRows* or_null(const std::optional<RoutedRows>& rows);

/// Peaks of all ranks, and what is held after every action of the first ranks.
void expect_memory(const RunConfig& config, const StepResult& found);
/// What this rank has sent.
void expect_traffic(const RunConfig& config, const StepResult& found, int rank);
/// Both for the actual routing of the model and of its teacher: a rank's rows are others than its
/// neighbours'.
void expect_routed_memory(const RunConfig& config, const StepResult& found);
void expect_routed_traffic(const RunConfig& config, const StepResult& found, int rank);

}  // namespace plumbline::training
