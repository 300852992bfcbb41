// Published runs with the errors of their predictions, as errors.csv keeps them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Traits of a training run that the error of its prediction depends on.
struct RunKind {
  std::string software;
  std::string hardware;       // its name, or that of its file
  bool mixture = false;       // of experts
  int gpus = 1;               // ranks
  double tokens_per_gpu = 1;  // of a step
  double peak_tflops = 0;     // of one GPU in 16 bit
  int bits = 16;              // of the operands of linear layers
};
RunKind kind_of(const RunConfig& config, const HardwareProfile& hardware);

struct KnownRun {
  std::string origin;
  std::string quantity;  // step_s or peak_bytes
  RunKind kind;
  double ratio = 1;  // published ÷ predicted
};

/// Who published: the repository, paper or benchmark at the beginning of a source's text.
std::string origin_of(const std::string& source);
/// True for one repository, with or without its owner's name.
bool is_same_origin(const std::string& one, const std::string& other);

/// All runs of the file that is part of the program, by the predictions of this version (a test compares).
const std::vector<KnownRun>& known_runs();

/// Mean error of the known runs of one software, dense or MoE. A name that stands for another, such as
/// megatron-core for its newest generation, has the runs of that one.
struct KnownErrors {
  struct Error {
    int rows = 0;
    double mean = 0;  // absolute relative error, as a fraction of the published value
  };
  std::string software;  // whose runs they are
  std::optional<Error> step;
  std::optional<Error> peak;
};
KnownErrors known_errors(const std::string& software, bool mixture);

}  // namespace plumbline
