// Checkpoints on disk: complete or absent, found and kept in the right order, and read as untrusted files.
#include "bench/training/checkpoints/step_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/training/checkpoints/saved_states.hpp"
#include "core/base/error.hpp"
#include "core/files/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::training::step_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct NamedPiece {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  StoredType type = StoredType::fp32;
};

/// The two halves of a 3 × 2 tensor of elements 0 to 5, one in each shard.
const NamedPiece kTop = {"weight|3x2|0:1|0:2|a", {1, 2}, {0, 1}};
const NamedPiece kBottom = {"weight|3x2|1:3|0:2|a", {2, 2}, {2, 3, 4, 5}};

class StepFolder : public testing::Test {
 protected:
  static void write_shard(const std::string& file, const std::vector<NamedPiece>& pieces) {
    std::vector<TensorFileWriter::Entry> entries;
    for (const NamedPiece& piece : pieces) entries.push_back({piece.name, piece.type, piece.shape});
    TensorFileWriter writer(file, entries);
    for (const NamedPiece& piece : pieces) writer.write(piece.name, std::as_bytes(std::span(piece.values)));
    writer.finish();
  }
  static constexpr LossScaleState kScale{1024, 3, -1, 2};
  /// A complete checkpoint of two shards.
  void save(std::int64_t step, const std::vector<NamedPiece>& first = {kTop},
            const std::vector<NamedPiece>& second = {kBottom}) const {
    begin_step_folder(folder_, step);
    const std::string unfinished = unfinished_folder(folder_, step);
    write_shard(shard_path(unfinished, 0), first);
    write_shard(shard_path(unfinished, 1), second);
    CheckpointFacts facts{step, {{"seed", "1"}}, {{"world_size", "2"}}, {}, {}, kScale};
    for (std::int64_t i = 0; i < step; ++i) facts.losses.push_back(0.1 * static_cast<double>(i));
    facts.shards = {facts_of_file(shard_path(unfinished, 0)), facts_of_file(shard_path(unfinished, 1))};
    commit_step_folder(folder_, facts);
  }
  std::string at(std::int64_t step, const std::string& file) const {
    return step_folder(folder_, step) + "/" + file;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.folder_;
};

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_text(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_F(StepFolder, WhatWasSavedIsFoundWithAllThatIsKnownOfIt) {
  save(2);
  save(12);
  EXPECT_THAT(names(), ElementsAre("iter_0000002", "iter_0000012"));
  const auto found = newest_checkpoint(folder_, 100, [](const std::string& line) { ADD_FAILURE() << line; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->facts.step, 12);
  EXPECT_EQ(found->facts.losses.at(11), 0.1 * 11);
  EXPECT_EQ(found->facts.loss_scale, kScale);
  EXPECT_THAT(found->facts.identity, ElementsAre(testing::Pair("seed", "1")));
  EXPECT_EQ(newest_checkpoint(folder_, 12, [](const std::string&) {})->facts.step, 2);
  EXPECT_FALSE(newest_checkpoint(folder_, 2, [](const std::string&) {}));
  const SavedStates saved(found->folder, 2);
  std::vector<float> middle(2);
  saved.read("weight", {"a", 3, 2, 0, 1, 2, 1, 0, 0}, middle.data());  // of both shards
  EXPECT_THAT(middle, ElementsAre(1, 3));
  EXPECT_THAT(error_of([&] {
                saved.read("moment1", {"a", 3, 2, 0, 0, 1, 1, 0, 0}, middle.data());
              }),
              HasSubstr("there is no moment1 of a"));
  EXPECT_THAT(error_of([&] {
                saved.read("weight", {"a", 2, 2, 0, 0, 1, 1, 0, 0}, middle.data());
              }),
              HasSubstr("weight of a is 3 x 2, expected 2 x 2"));
}

/// Done to the newest of two checkpoints: it is named, and the one before is taken.
TEST_F(StepFolder, ADamagedOneIsNamedAndTheOneBeforeIsTaken) {
  struct Damage {
    const char* said;
    std::function<void(const std::string& folder)> done;
  };
  const auto shard = [](const std::string& folder) { return folder + "/shard_00001.safetensors"; };
  const auto metadata = [](const std::string& folder) { return folder + "/metadata.json"; };
  const std::vector<Damage> all = {
      {"shard_00001.safetensors", [&](const std::string& f) { fs::remove(shard(f)); }},
      {"bytes, expected",
       [&](const std::string& f) { fs::resize_file(shard(f), fs::file_size(shard(f)) - 1); }},
      {"bytes, expected", [&](const std::string& f) { fs::resize_file(shard(f), 0); }},
      {"found CRC-32",
       [&](const std::string& f) {
         std::fstream file(shard(f), std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(-1, std::ios::end);
         file.put('\x55');
       }},
      {"metadata.json", [&](const std::string& f) { fs::remove(metadata(f)); }},
      {"metadata.json",
       [&](const std::string& f) { fs::resize_file(metadata(f), fs::file_size(metadata(f)) / 2); }},
      {"is of step 2",
       [&](const std::string& f) {
         fs::copy_file(folder_ + "/iter_0000002/metadata.json", metadata(f),
                       fs::copy_options::overwrite_existing);
       }},
      {"format", [&](const std::string& f) { replace_in(metadata(f), "checkpoint 1", "checkpoint 2"); }},
      {"losses: found 3",
       [&](const std::string& f) { replace_in(metadata(f), "\"step\": 3", "\"step\": 4"); }},
      {"crc32", [&](const std::string& f) { replace_in(metadata(f), "\"crc32\": ", "\"crc32\": -"); }},
      {"bytes",
       [&](const std::string& f) { replace_in(metadata(f), "\"bytes\": ", "\"bytes\": 1e30, \"x\": "); }},
      {"found none",
       [&](const std::string& f) {
         replace_in(metadata(f), "\"shards\": [", "\"shards\": [], \"others\": [");
       }},
      {"not a regular file",
       [&](const std::string& f) {
         fs::remove(shard(f));
         fs::create_directory(shard(f));
       }},
  };
  for (const Damage& damage : all) {
    SCOPED_TRACE(damage.said);
    fs::remove_all(folder_);
    save(2);
    save(3);
    damage.done(step_folder(folder_, 3));
    std::vector<std::string> said;
    const auto found =
        newest_checkpoint(folder_, 100, [&](const std::string& line) { said.push_back(line); });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->facts.step, 2);
    EXPECT_THAT(said, ElementsAre(HasSubstr(damage.said)));
  }
}

TEST_F(StepFolder, ShardsThatDoNotMakeAWholeAreRefused) {
  struct Case {
    const char* said;
    std::vector<NamedPiece> first, second;
  };
  const NamedPiece bytes16 = {"weight|3x2|0:1|0:2|a", {1, 2}, {0}, StoredType::bf16};
  const Case cases[] = {
      {"is there twice from row 0", {kTop}, {kTop, kBottom}},
      {"is there twice from row 1", {{"weight|3x2|0:2|0:2|a", {2, 2}, {0, 1, 2, 3}}}, {kBottom}},
      {"has 4 elements in all shards, expected 3 x 2", {}, {kBottom}},
      {"another whole shape", {{"weight|4x2|0:1|0:2|a", {1, 2}, {0, 1}}}, {kBottom}},
      {"type or shape is not that of its name", {{"weight|3x2|0:1|0:2|a", {2}, {0, 1}}}, {kBottom}},
      {"type or shape is not that of its name", {bytes16}, {kBottom}},
      {"not a piece of a training state", {{"model.norm.weight", {2}, {0, 1}}}, {kBottom}},
      {"not a piece of a training state", {{"weight|3x2|2:4|0:2|a", {2, 2}, {0, 1, 2, 3}}}, {kBottom}},
  };
  std::int64_t step = 0;
  for (const Case& each : cases) {
    save(++step, each.first, each.second);
    EXPECT_THAT(error_of([&] { SavedStates(step_folder(folder_, step), 2); }), HasSubstr(each.said));
  }
}

TEST_F(StepFolder, OldOnesGoWhenTheNewestReadsWell) {
  for (std::int64_t step = 1; step <= 4; ++step) save(step);
  remove_old(folder_, 4, 2);
  EXPECT_THAT(names(), ElementsAre("iter_0000003", "iter_0000004"));
  save(5);
  fs::resize_file(at(5, "shard_00000.safetensors"), 10);
  EXPECT_THAT(error_of([&] { remove_old(folder_, 5, 2); }), HasSubstr("found 10 bytes, expected 128"));
  EXPECT_THAT(names(), ElementsAre("iter_0000003", "iter_0000004", "iter_0000005"));
  remove_old(folder_, 4, 1);  // one behind it is not looked at
  EXPECT_THAT(names(), ElementsAre("iter_0000004", "iter_0000005"));
  save(5);  // written again, in the place of the damaged one
  remove_old(folder_, 5, 1);
  EXPECT_THAT(names(), ElementsAre("iter_0000005"));
}

TEST_F(StepFolder, OnlyWhatIsACheckpointOfItsOwnIsTouched) {
  save(3);
  const std::vector<std::string> others = {"iter_3", "iter_0000x01", "iter_-000001", "iter_0000004.txt",
                                           "notes"};
  for (const std::string& other : others) fs::create_directory(folder_ + "/" + other);
  begin_step_folder(folder_, 7);
  fs::create_directory(folder_ + "/iter_0000001.removed");
  fs::create_directory(folder_ + "/x.partial");
  // A link to somewhere else is no checkpoint, and its target stays.
  const std::string elsewhere = folder_ + "/notes/kept";
  std::ofstream(elsewhere) << "kept";
  fs::create_directory_symlink(folder_ + "/notes", folder_ + "/iter_0000009");
  fs::create_directory_symlink(folder_ + "/notes", folder_ + "/iter_0000008.partial");
  EXPECT_THAT(complete_steps(folder_), ElementsAre(3));
  EXPECT_EQ(remove_unfinished(folder_), 2);
  remove_old(folder_, 3, 1);
  EXPECT_THAT(names(), AllOf(testing::IsSupersetOf(others), testing::Contains("x.partial"),
                             Not(testing::Contains("iter_0000007.partial"))));
  EXPECT_TRUE(fs::exists(elsewhere));
  EXPECT_THAT(complete_steps(folder_ + "/none"), IsEmpty());
}

TEST_F(StepFolder, BelongsToOneRunAtATime) {
  const CheckpointLock mine(folder_);
  EXPECT_THAT(error_of([&] { CheckpointLock other(folder_); }), HasSubstr("in use by another run"));
  EXPECT_THAT(error_of([&] { CheckpointLock other(folder_ + "/none"); }),
              HasSubstr("expected a folder that can be opened"));
}

}  // namespace
}  // namespace plumbline::training::step_folder_test
