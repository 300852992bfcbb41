// Results of many dates and versions as one history: a series per cell, and where it changed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/show/history/change_points.hpp"
#include "bench/show/history/matched_cells.hpp"

namespace plumbline {

struct HistoryFolder {
  std::string name;
  std::vector<Record> records;
};

struct HistoryCell {
  std::string name;           // the values of the keys that vary: "tp 2, pp 4"
  std::vector<double> steps;  // seconds by folder; NaN: not measured, or disturbed
  std::vector<double> peaks;  // bytes, likewise
};

/// A step of a cell's step time or peak memory.
struct HistoryChange {
  bool memory = false;
  ChangePoint point;  // series: the cell; at: the folder

  bool loss() const { return point.after > point.before; }
};

struct History {
  std::vector<std::string> folders;
  std::vector<std::string> versions;  // of plumbline, by folder; empty: unknown
  std::vector<HistoryCell> cells;
  std::vector<HistoryChange> changes;  // by cell and folder
  std::vector<std::string> notes;      // folders that are not comparable, keys that changed: a line each
  int disturbed = 0;                   // measurements left out

  /// The last change of some cell is a loss.
  bool regressed() const;
};

/// `folders` from the oldest to the newest. Cells are matched by the keys that vary within a folder. A folder
/// whose other keys, processor or GPU differ from the newest one's is not comparable and left out, unless
/// only keys of measuring differ. Step times are at the same machine speed where probes know it. Memory has
/// no noise: every change beyond the tolerance counts.
History history_of(const std::vector<HistoryFolder>& folders, const ChangeRule& rule);

/// Lines for a terminal, in tables of `width` columns (0: no limit).
std::string history_text(const History& history, int width = 0);
/// {"folders": [{"name", "version"}], "cells": [{"cell", "step_s": [], "peak_bytes": []}], "changes":
/// [{"cell", "what", "folder", "before", "after", "relative", "probability", "loss"}], "notes",
/// "regressed"}.
std::string history_json(const History& history);
/// A page with a curve for every cell.
std::string history_page(const History& history);

}  // namespace plumbline
