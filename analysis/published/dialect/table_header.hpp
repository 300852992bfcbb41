// The header of a published table, NAME.yaml alongside NAME.csv. It has values for all rows, and the meaning
// of the columns of a source's own file.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace plumbline {

/// Texts by column of the dialect (results/published/README.md).
using Cells = std::map<std::string, std::string, std::less<>>;

/// Meaning of a column of a source's own file.
struct SourceColumn {
  std::string key;                                   // column of the dialect; empty: the cell is not used
  double scale = 1;                                  // the number in the cell times this is the value
  std::map<std::string, Cells, std::less<>> values;  // meaning of each text; empty: itself
};
using SourceColumns = std::map<std::string, SourceColumn, std::less<>>;

/// One of the runs that a row of a source's file holds.
struct SourceRun {
  Cells defaults;
  SourceColumns columns;
};

struct TableHeader {
  std::string title;
  std::string source;
  Cells defaults;     // of any column of the dialect
  std::string label;  // patterns such as "h{hidden_size} t{tp}", for rows without such a cell
  std::string sweep;
  SourceColumns columns;
  std::vector<SourceRun> runs;  // empty: a row is one run
};

/// Reads a header as untrusted input: keys title, source, defaults, label, sweep, columns, runs; flops,
/// peak_tflops and memory, which are defaults too. Throws InputError naming the file, the key, what was found
/// and what was expected.
TableHeader parse_header(const std::string& yaml, const std::string& origin);

}  // namespace plumbline
