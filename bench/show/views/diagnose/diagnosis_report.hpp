// The time of a measured step by category, beside its prediction: as text and as JSON.
#pragma once

#include <optional>
#include <string>

#include "analysis/diagnose/diagnosis.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// A prediction of the same step.
struct ExpectedStep {
  SharedTime time;
  std::string hardware;
  std::string comparable;  // interval of comparable published runs, a line; empty: none
  std::vector<StepFinding> differences;
};

std::string diagnosis_text(const Diagnosis& diagnosis, const std::optional<ExpectedStep>& expected);
OrderedJson diagnosis_json(const Diagnosis& diagnosis, const std::optional<ExpectedStep>& expected);

}  // namespace plumbline
