// Converts a checkpoint: opened, planned, written file by file, published whole.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/convert/planned_files.hpp"
#include "core/base/units.hpp"

namespace plumbline::convert {

struct ConvertRequest {
  std::string from;
  std::string to;
  std::optional<CheckpointFormat> format;  // empty: the one that `from` has not
  MegatronTarget megatron;
  std::string model;  // a preset, a config.json or its folder; empty: the config.json in `from`
  bool overwrite = false;
  std::int64_t shard_bytes = 5'000'000'000;  // of Hugging Face's files
  int threads = 0;                           // one per file; 0: the number of processors, 4 at most
};

struct ConvertReport {
  CheckpointFormat from = CheckpointFormat::hugging_face;
  CheckpointFormat to = CheckpointFormat::hugging_face;
  MegatronSizes from_sizes;
  std::string architecture;
  std::int64_t tensors = 0;
  std::int64_t files = 0;
  std::int64_t files_kept = 0;      // written by a conversion that was stopped
  Bytes written{};                  // of tensors
  std::vector<std::string> unused;  // tensors that the model has no place for
  bool optimizer = false;           // FROM has states of an optimizer, which are left out
};

/// Bytes done, of all.
using ConvertProgress = std::function<void(Bytes done, Bytes all)>;

/// All checks are done before the first byte is written. Throws InputError, also when the disk does not take
/// the bytes; the next call with the same request continues from the bytes written so far. `progress` is
/// called by one thread at a time.
ConvertReport convert_checkpoint(const ConvertRequest& request, const ConvertProgress& progress);

}  // namespace plumbline::convert
