// Timelines of a predicted step: in the terminal, as a picture, and for trace viewers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "analysis/predict/predict.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct PredictFiles {
  bool timeline = false;
  std::string svg;
  std::string trace;
};

/// Adds --timeline, which `json` excludes, --svg and --trace.
void add_timeline_options(CLI::App& command, PredictFiles& files, CLI::Option* json);

/// Throws OutputError for a place that cannot be written, before any time is spent.
void check_places(const PredictFiles& files);

/// Writes the requested files and returns the terminal's timeline, empty unless requested. Throws InputError
/// for a step with too many actions to draw.
std::string draw(const PredictFiles& files, const RunConfig& config, const RepeatedSchedule& step,
                 const Prediction& prediction, const HardwareProfile& hardware);

}  // namespace plumbline
