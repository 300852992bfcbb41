// The operators that `plumbline operator` knows: their columns and their lookups.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/operators/operator_lookup.hpp"

namespace plumbline {

/// One operator as words by column, from the command line or a line of a CSV file.
class OperatorWords {
 public:
  /// `place`: prefix of errors, such as "operator gemm: --" or "shapes.csv:3: ".
  OperatorWords(std::map<std::string, std::string, std::less<>> words, std::string place)
      : words_(std::move(words)), place_(std::move(place)) {}

  /// A column's word, or `otherwise` if it is not given. Throws InputError if that is empty, too.
  std::string word(std::string_view column, std::string_view otherwise = "") const;
  /// A number from 1 (or `least`) to 10^12. Throws InputError.
  double number(std::string_view column, std::string_view otherwise = "", double least = 1) const;
  [[noreturn]] void refuse(std::string_view column, std::string_view found, std::string_view expected) const;

 private:
  std::map<std::string, std::string, std::less<>> words_;
  std::string place_;
};

struct OperatorResult {
  silicon::OperatorTime whole;
  double flops = 0;                                                       // 0: none to speak of
  std::vector<std::pair<std::string_view, silicon::OperatorTime>> parts;  // in CSV: predicted_NAME_s
};

struct OperatorColumn {
  std::string_view name;
  std::string_view otherwise;  // its value where it is not given; empty: it must be given
};

struct OperatorKind {
  std::string_view name;
  std::string_view summary;
  std::vector<OperatorColumn> columns;
  OperatorResult (*time)(silicon::OperatorLookup& lookup, const OperatorWords& shape, silicon::Clock clock);
};

std::span<const OperatorKind> operator_kinds();
/// Throws InputError with the known names.
const OperatorKind& operator_kind(std::string_view name);

}  // namespace plumbline
