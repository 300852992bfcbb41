// A table of shapes with a predicted time in each line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/operators/operator_kinds.hpp"

namespace plumbline {

/// A table of shapes: comma-separated cells without quotes under a header.
struct ShapeLine {
  std::string text;
  std::string place;                                      // for errors: "shapes.csv:3: "
  std::map<std::string, std::string, std::less<>> words;  // by column
};
struct ShapeTable {
  std::string header;
  std::vector<ShapeLine> lines;
};
/// Throws InputError with the line.
ShapeTable read_shape_table(const std::string& path);

struct OperatorRows {
  std::string path;
  std::string hardware;  // of lines without an accelerator
  silicon::Clock clock = silicon::Clock::as_measured;
  std::map<std::string, std::string, std::less<>> words;  // of columns that the file lacks
};

/// The file with the columns predicted_s (seconds), one predicted_NAME_s per part, and basis at the end of
/// each line. Throws InputError with the line.
std::string predicted_rows(const OperatorKind& kind, const OperatorRows& rows);

}  // namespace plumbline
