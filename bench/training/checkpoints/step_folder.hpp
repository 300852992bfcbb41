// A folder of checkpoints on disk: DIR/iter_0000012 holds one shard of every rank and metadata.json, complete
// or absent. It is written as DIR/iter_0000012.partial, and renamed when every file in it is on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/parameters/loss_scaler.hpp"
#include "core/base/units.hpp"

namespace plumbline::training {

inline constexpr int kMostShards = 1 << 16;

struct ShardFacts {
  Bytes bytes;
  std::uint32_t crc = 0;  // CRC-32 of the whole file, as zlib counts it
};

/// Content of metadata.json.
struct CheckpointFacts {
  std::int64_t step = 0;  // that are done; the next one takes the samples from step × global_batch_size on
  std::vector<std::pair<std::string, std::string>> identity;  // settings that a resumed run must share
  std::vector<std::pair<std::string, std::string>> split;     // how it was cut; for people
  std::vector<double> losses;                                 // of every step so far
  std::vector<ShardFacts> shards;                             // by world rank of the run that wrote them
  std::optional<LossScaleState> loss_scale;                   // with fp16
};

/// DIR/iter_%07d, as Megatron-LM calls it.
std::string step_folder(const std::string& directory, std::int64_t step);
/// The same while it is written.
std::string unfinished_folder(const std::string& directory, std::int64_t step);
/// FOLDER/shard_%05d.safetensors
std::string shard_path(const std::string& folder, int shard);

/// Steps with a complete checkpoint, newest first; of a folder that is not there none.
std::vector<std::int64_t> complete_steps(const std::string& directory);

/// Length and CRC of a file, read from its beginning to its end. Throws InputError.
ShardFacts facts_of_file(const std::string& path);
/// Facts of the checkpoint in `folder`, read as untrusted input. Throws InputError naming the file and the
/// error.
CheckpointFacts read_facts(const std::string& folder);
/// Reads every shard. Throws InputError naming the first one that is missing or differs from what was
/// written.
void verify_shards(const std::string& folder, const CheckpointFacts& facts);

struct FoundCheckpoint {
  std::string folder;
  CheckpointFacts facts;
};
/// The newest complete checkpoint of less than `below` steps that reads as it was written. `on_damaged` takes
/// one line for every one that does not.
std::optional<FoundCheckpoint> newest_checkpoint(const std::string& directory, std::int64_t below,
                                                 const std::function<void(const std::string&)>& on_damaged);

/// Makes the folder in which ranks write their shards, empty. Throws Error.
void begin_step_folder(const std::string& directory, std::int64_t step);
/// Writes metadata.json, brings everything to the disk and renames the folder. Throws Error.
void commit_step_folder(const std::string& directory, const CheckpointFacts& facts);
/// Removes unfinished checkpoints, and old ones being removed; returns their number.
int remove_unfinished(const std::string& directory);
/// Keeps `keep` of the complete checkpoints up to `newest`, which must be there. Nothing is removed unless
/// the newest reads as it was written. Throws InputError when it does not. Later ones (damaged, or of a run
/// that this one does not resume) stay.
void remove_old(const std::string& directory, std::int64_t newest, int keep);

/// Keeps others from writing checkpoints to a folder, for as long as it lives.
class CheckpointLock {
 public:
  /// The folder must be there. Throws InputError when another run has it.
  explicit CheckpointLock(const std::string& directory);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace plumbline::training
