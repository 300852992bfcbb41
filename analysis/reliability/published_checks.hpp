// Published figures of reliability, and those of them that follow from printed figures by a law used here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plumbline {

struct PublishedCheck {
  std::string quantity;
  std::string unit;
  std::string source;
  double printed = 0;
  std::optional<double> computed;  // nothing: `why` names the missing input
  std::string why;
  bool measured = false;  // an outcome that the law need not meet
  bool within = false;    // the rounding of the printed results and inputs
};

/// Every check of published_checks.json, computed with the laws of this folder.
std::vector<PublishedCheck> published_checks();

}  // namespace plumbline
