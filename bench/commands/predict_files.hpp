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

/// Throws InputError for a place that cannot be written, before any time is spent.
void check_places(const PredictFiles& files);

/// Writes the files that are asked for and returns the terminal's timeline, empty unless that is asked for.
/// Throws InputError for a step of too many actions to be drawn.
std::string draw(const PredictFiles& files, const RunConfig& config, const RepeatedSchedule& step,
                 const Prediction& prediction, const HardwareProfile& hardware);

}  // namespace plumbline
