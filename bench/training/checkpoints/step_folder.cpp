#include "bench/training/checkpoints/step_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/mapped_file.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::training {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "plumbline training checkpoint 1";
constexpr std::size_t kLargestMetadata = std::size_t{64} << 20;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 31;
constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kUnfinished = ".partial";
constexpr std::string_view kRemoved = ".removed";

std::string metadata_path(const std::string& folder) {
  return folder + "/metadata.json";
}

/// "iter_0000012" as 12; nothing for a name that is not written so.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (read.ec != std::errc() || step < 0 || fmt::format("{:07}", step) != digits) return std::nullopt;
  return step;
}

/// Names in the folder, none when it cannot be read.
std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    // A link may lead anywhere: it is nobody's checkpoint, and nothing is removed through it.
    if (entry->symlink_status(unknown).type() == fs::file_type::directory)
      names.push_back(entry->path().filename().string());
  }
  return names;
}

[[noreturn]] void fail_writing(const std::string& path, int error) {
  throw OutputError(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

/// Returns once the contents of the path are on the disk.
void sync_path(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_writing(path, errno);
  // Some file systems cannot sync a folder; then there is nothing more to be done.
  const int error = ::fsync(file) != 0 && errno != EINVAL ? errno : 0;
  ::close(file);
  if (error != 0) fail_writing(path, error);
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_writing(to, errno);
}

OrderedJson object_of_texts(const std::vector<std::pair<std::string, std::string>>& texts) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [key, value] : texts) object[key] = value;
  return object;
}

std::string to_text(const CheckpointFacts& facts) {
  OrderedJson json = {{"format", kFormat},
                      {"step", facts.step},
                      {"identity", object_of_texts(facts.identity)},
                      {"split", object_of_texts(facts.split)},
                      {"losses", facts.losses},
                      {"shards", OrderedJson::array()}};
  if (facts.loss_scale) {
    json["loss_scale"] = {{"scale", facts.loss_scale->scale},
                          {"growth_tracker", facts.loss_scale->growth},
                          {"hysteresis_tracker", facts.loss_scale->hysteresis},
                          {"skipped_steps", facts.loss_scale->skipped}};
  }
  for (const ShardFacts& shard : facts.shards)
    json["shards"].push_back({{"bytes", shard.bytes.value}, {"crc32", shard.crc}});
  return output_json(json, 1) + "\n";
}

}  // namespace

std::string step_folder(const std::string& directory, std::int64_t step) {
  return fmt::format("{}/{}{:07}", directory, kPrefix, step);
}

std::string unfinished_folder(const std::string& directory, std::int64_t step) {
  return step_folder(directory, step) + std::string(kUnfinished);
}

std::string shard_path(const std::string& folder, int shard) {
  return fmt::format("{}/shard_{:05}.safetensors", folder, shard);
}

std::vector<std::int64_t> complete_steps(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(directory)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

ShardFacts facts_of_file(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return {{std::ssize(bytes)},
          static_cast<std::uint32_t>(bytes.empty() ? ::crc32_z(0, nullptr, 0)
                                                   : ::crc32_z(0, data, bytes.size()))};
}

CheckpointFacts read_facts(const std::string& folder) {
  const std::string path = metadata_path(folder);
  const auto json = parse_json_object<OrderedJson>(read_text_file(path, kLargestMetadata), path);
  const OrderedJsonKeys keys(json, path, JsonNull::refused);
  keys.must_be_one_of("format", {kFormat});
  CheckpointFacts facts;
  facts.step = keys.integer("step", 1, kMostSteps);
  facts.identity = keys.texts("identity");
  facts.split = keys.texts("split");
  facts.losses = keys.numbers("losses", -OrderedJsonKeys::kInfinite, OrderedJsonKeys::kInfinite);
  if (std::ssize(facts.losses) != facts.step)
    keys.fail("losses",
              fmt::format("found {}, expected one of each of {} steps", facts.losses.size(), facts.step));
  if (keys.find("loss_scale") != nullptr) {
    const OrderedJsonKeys scale = keys.object("loss_scale");
    facts.loss_scale = {scale.number("scale", 1e-30, 1e30), scale.integer("growth_tracker", 0, kMostSteps),
                        scale.integer("hysteresis_tracker", -kMostSteps, kMostSteps),
                        scale.integer("skipped_steps", 0, facts.step)};
  }
  for (const OrderedJsonKeys& shard : keys.objects("shards", kMostShards)) {
    facts.shards.push_back({{shard.integer("bytes", 0, std::int64_t{1} << 50)},
                            static_cast<std::uint32_t>(shard.integer("crc32", 0, 0xffffffff))});
  }
  if (facts.shards.empty()) keys.fail("shards", "found none, expected one of every rank");
  return facts;
}

void verify_shards(const std::string& folder, const CheckpointFacts& facts) {
  for (int shard = 0; shard < std::ssize(facts.shards); ++shard) {
    const std::string path = shard_path(folder, shard);
    const ShardFacts found = facts_of_file(path);
    const ShardFacts& expected = facts.shards[static_cast<std::size_t>(shard)];
    if (found.bytes.value != expected.bytes.value) {
      throw InputError(
          fmt::format("{}: found {} bytes, expected {}", path, found.bytes.value, expected.bytes.value));
    }
    if (found.crc != expected.crc) {
      throw InputError(
          fmt::format("{}: found CRC-32 {:08x}, expected {:08x}", path, found.crc, expected.crc));
    }
  }
}

std::optional<FoundCheckpoint> newest_checkpoint(const std::string& directory, std::int64_t below,
                                                 const std::function<void(const std::string&)>& on_damaged) {
  for (const std::int64_t step : complete_steps(directory)) {
    if (step >= below) continue;
    FoundCheckpoint found{step_folder(directory, step), {}};
    try {
      found.facts = read_facts(found.folder);
      if (found.facts.step != step)
        throw InputError(fmt::format("{}: is of step {}", metadata_path(found.folder), found.facts.step));
      verify_shards(found.folder, found.facts);
      return found;
    } catch (const InputError& error) {
      on_damaged(error.what());
    }
  }
  return std::nullopt;
}

void begin_step_folder(const std::string& directory, std::int64_t step) {
  const std::string folder = unfinished_folder(directory, step);
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::create_directories(directory, error);
  if (error) throw OutputError(fmt::format("{}: cannot be made: {}", folder, error.message()));
  OutputFolder::make(folder);  // no link in its place
}

void commit_step_folder(const std::string& directory, const CheckpointFacts& facts) {
  const std::string folder = unfinished_folder(directory, facts.step);
  const std::string whole = step_folder(directory, facts.step);
  OutputFolder::made(folder).write("metadata.json", to_text(facts));
  sync_path(metadata_path(folder));
  sync_path(folder);
  std::error_code unknown;
  if (fs::exists(whole, unknown)) {  // damaged, or of a run that went on from an earlier one
    rename_path(whole, whole + std::string(kRemoved));
    fs::remove_all(whole + std::string(kRemoved), unknown);
  }
  rename_path(folder, whole);
  sync_path(directory);
}

int remove_unfinished(const std::string& directory) {
  int removed = 0;
  for (const std::string& name : names_in(directory)) {
    for (const std::string_view ending : {kUnfinished, kRemoved}) {
      if (!name.ends_with(ending)) continue;
      if (!step_of(std::string_view(name).substr(0, name.size() - ending.size()))) continue;
      std::error_code ignored;
      fs::remove_all(fmt::format("{}/{}", directory, name), ignored);
      removed += ignored ? 0 : 1;
    }
  }
  return removed;
}

void remove_old(const std::string& directory, std::int64_t newest, int keep) {
  std::vector<std::int64_t> steps = complete_steps(directory);
  std::erase_if(steps, [&](std::int64_t step) { return step > newest; });
  if (std::ssize(steps) <= keep) return;
  const std::string kept = step_folder(directory, newest);
  verify_shards(kept, read_facts(kept));
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i) {
    const std::string folder = step_folder(directory, steps[i]);
    const std::string gone = folder + std::string(kRemoved);
    std::error_code ignored;
    fs::remove_all(gone, ignored);
    rename_path(folder, gone);  // at once: half a checkpoint never has a complete one's name
    fs::remove_all(gone, ignored);
  }
}

CheckpointLock::CheckpointLock(const std::string& directory)
    : folder_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ >= 0 && (::flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) return;
  const int error = errno;
  if (folder_ >= 0) ::close(folder_);
  folder_ = -1;
  if (error == EWOULDBLOCK) {
    throw InputError(fmt::format(
        "--checkpoint-dir: found {} in use by another run, expected a free folder; name another folder",
        printable(directory, 400)));
  }
  throw InputError(fmt::format("--checkpoint-dir: found {}, expected a folder that can be opened: {}",
                               printable(directory, 400), std::strerror(error)));
}

CheckpointLock::~CheckpointLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace plumbline::training
