// Every reader of outside files against random damage: each input is accepted or refused with InputError,
// never anything else. Under the sanitizers this also finds reads outside the file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/model_config.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "core/config_text/matrix_config.hpp"
#include "core/files/safetensors.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::damaged_input_test {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 500;

/// One to three random edits: a byte, a deletion, an insertion of something that means something to the
/// format, a repetition, a truncation.
std::string damaged(const std::string& whole, std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "{",    "}",       "[",   "]",  ",",         ":", "\"", "'",  "-",  "0",  "9",
      "e",    "null",    "&a ", "*a", "!!binary ", "#", "? ", "\n", "  ", "| ", "99999999999999999999",
      "true", "\\u0000", "\xff"};
  std::string text = whole;
  for (unsigned edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
    const std::size_t place = random() % text.size();
    switch (random() % 5) {
      case 0:
        text[place] = static_cast<char>(random());
        break;
      case 1:
        text.erase(place, 1 + random() % 8);
        break;
      case 2:
        text.insert(place, kPieces[random() % kPieces.size()]);
        break;
      case 3:
        text.insert(place, text.substr(random() % text.size(), random() % 40));
        break;
      default:
        text.resize(place + 1);
    }
  }
  return text;
}

/// Reads `whole`, which must be accepted, and damaged versions of it.
void damage(const std::string& whole, const std::function<void(const std::string&)>& read) {
  ASSERT_NO_THROW(read(whole));
  std::mt19937 random(20240615);
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = damaged(whole, random);
    try {
      read(text);
    } catch (const InputError& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not an InputError: " << error.what() << "\nfor:\n" << text;
    }
  }
  EXPECT_GT(refused, kRounds / 10);
}

class Scratch {
 public:
  explicit Scratch(const char* name)
      : path_((fs::path(testing::TempDir()) / (std::to_string(::getpid()) + name)).string()) {}
  ~Scratch() { fs::remove(path_); }
  const std::string& write(const std::string& bytes) const {
    fs::remove(path_);  // a fresh file: some file systems flush one that is truncated and rewritten
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }

 private:
  std::string path_;
};

TEST(DamagedInput, ModelConfig) {
  damage(to_config_json(*find_preset("llama-3.1-8b")),
         [](const std::string& text) { parse_model_config(text, "config.json"); });
  damage(to_config_json(*find_preset("gpt2-124m")),
         [](const std::string& text) { parse_model_config(text, "config.json"); });
  ModelConfig windows = *find_preset("qwen2.5-0.5b");
  windows.layers = 3;
  windows.window.size = 4096;
  windows.window.full_layers = {false, true, false};
  damage(to_config_json(windows), [](const std::string& text) { parse_model_config(text, "config.json"); });
}

TEST(DamagedInput, RunConfig) {
  const Scratch file("plumbline_damaged.yaml");
  const std::string text =
      "# a comment\nmodel: &m {model_type: gpt2, n_embd: 48, n_layer: 3, n_head: 4, n_positions: 32, "
      "vocab_size: 9}\n"
      "teacher: *m\ntensor_model_parallel_size: 2\nseq_length: 16\nmicro_batch_size: 1\nprecision: bf16\n"
      "memory_budget: 1.5GiB\nlearning_rate: 1e-4\nsequence_parallel: false\nhardware: \"a b\"\n";
  damage(text, [&](const std::string& damaged_text) {
    const RunConfig config = load_run_config(file.write(damaged_text), {});
    if (!why_invalid(config)) load_run_config(file.write(to_yaml(config)), {});
  });
}

TEST(DamagedInput, Matrix) {
  const Scratch file("plumbline_damaged_matrix.yaml");
  const std::string text =
      "model: gpt2-124m\nmatrix:\n  tp: [1, 2]\n  both:\n    - {pp: 1, dp: 2}\n    - {pp: 2}\n"
      "exclude:\n  - {tp: 2, pp: 2}\ninclude:\n  - {seq_length: 32}\n  - {tp: 4, precision: fp32}\n";
  damage(text, [&](const std::string& damaged_text) { load_matrix(file.write(damaged_text), {}); });
}

TEST(DamagedInput, Safetensors) {
  const Scratch file("plumbline_damaged.safetensors");
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
  const std::uint64_t length = header.size();
  const std::string text =
      std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(14, '\x01');
  damage(text, [&](const std::string& bytes) {
    const TensorFile tensors(file.write(bytes));
    for (const std::string& name : tensors.names()) {
      const StoredTensor& tensor = tensors.get(name);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) static_cast<void>(tensor.at(i));
    }
  });
}

TEST(DamagedInput, Tokens) {
  const Scratch file("plumbline_damaged.npy");
  const std::string dict = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n";
  const std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size()) + '\0' +
                           dict + std::string(12, '\x01');
  damage(text, [&](const std::string& bytes) {
    const TokenSource source(file.write(bytes), 1000, 4, 1);
    source.sample(7);
  });
}

}  // namespace
}  // namespace plumbline::damaged_input_test
