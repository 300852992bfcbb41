// Drawn config.json files of every family (model_files.json, made by draw_model_files.py): a file is refused,
// or it means the same as in transformers' model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/model_config.hpp"

namespace plumbline::drawn_models_test {
namespace {

constexpr std::int64_t kSequence = 12;  // SEQ of the script

std::string activation_of(const ModelConfig& model) {
  // A gate with another function is predicted as one of as many bytes and FLOPs.
  if (!model.predicted.keys.empty()) {
    const Json kept = Json::parse(model.predicted.keys);
    for (const char* key : {"hidden_act", "activation_function", "activation"}) {
      const std::string name = kept.value(key, "");
      for (const char* known : {"gelu", "relu", "relu2", "silu"}) {
        if (name == known && model.predicted.names.find(name + " with") != std::string::npos) return name;
      }
    }
  }
  switch (model.activation) {
    case Activation::swiglu:
      return "silu";
    case Activation::geglu:
    case Activation::gelu:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::relu:
      return "relu";
    case Activation::squared_relu:
      return "relu2";
  }
  return "";
}

/// Four digits, as the script keeps them.
double rounded(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

Json facts_of(const ModelConfig& model) {
  Json windows = Json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::int64_t window = model.window_of(layer);
    windows.push_back(window >= kSequence ? 0 : window);
  }
  const Mixture& mixture = model.mixture;
  const bool rotary = model.position.kind == Positions::rotary;
  return {{"parameters", model.parameters()},
          {"layers", model.layers},
          {"vocab", model.vocab},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"head_dim", model.head_dim},
          {"tied", model.embedding.tied},
          {"activation", activation_of(model)},
          {"epsilon", rounded(model.norms.epsilon)},
          {"windows", windows},
          {"init", model.init_std},
          {"position_rows", model.position_rows()},
          {"output_bias", model.biases.output},
          {"layer_norms", model.layer_norms()},
          {"experts", mixture.experts},
          {"top_k", mixture.top_k},
          {"normalized", mixture.normalized},
          {"routed_scale", mixture.routed_scale},
          {"groups", mixture.groups},
          {"chosen_groups", mixture.chosen_groups},
          {"shared", mixture.shared},
          {"first_dense", mixture ? model.layers - model.mixture_layers() : 0},
          {"rotated", rotary ? Json(model.rotated()) : Json(nullptr)},
          {"rope_theta", rotary ? Json(rounded(model.rotary.theta)) : Json(nullptr)}};
}

/// The message, or empty.
std::string complaint_about(const Json& file, ModelConfig& model) {
  try {
    model = parse_model_config(file.dump(), "config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool has(const char* part, const std::string& key) {
  return key.find(part) != std::string::npos;
}

/// Files that transformers 5 refuses and plumbline accepts, like version 4: a null for none or false, a whole
/// number for another number, a wide initializer_range, keys without a meaning for the family, a deepseek_v3
/// that leaves its key/value heads out.
bool is_taken_all_the_same(const std::string& family, const Json& entry) {
  if (entry.contains("drop")) return family == "deepseek_v3";
  bool nulls = true;
  bool whole = true;
  bool without_meaning = true;
  for (const auto& [key, value] : entry.at("set").items()) {
    nulls = nulls && value.is_null();
    const bool real = has("eps", key) || has("init", key) || has("factor", key) || has("noise", key);
    whole = whole && ((real && value.is_number_integer()) || (family == "llama" && has("init", key)));
    const bool positions =
        family == "gpt2" || family == "gpt_bigcode" || family == "bloom" || family == "opt";
    without_meaning =
        without_meaning && ((positions && has("rope", key)) ||
                            (family == "llama" && (has("layer_types", key) || has("sliding_window", key))) ||
                            (family == "falcon" && key == "head_dim"));
  }
  return nulls || whole || without_meaning;
}

/// Entries of a line: with "keys" and "values", one with "set" for each of its values.
std::vector<Json> changes_of(const Json& line) {
  if (!line.contains("keys")) return {line};
  std::vector<Json> entries;
  for (const Json& values : line.at("values")) {
    Json entry = line;
    for (std::size_t i = 0; i < values.size(); ++i)
      entry["set"][line.at("keys").at(i).get<std::string>()] = values.at(i);
    entries.push_back(std::move(entry));
  }
  return entries;
}

TEST(DrawnModels, AreRefusedOrMeanWhatTransformersMakesOfThem) {
  std::ifstream in(std::string(PLUMBLINE_SOURCE_DIR) + "/tests/core/config/model_files.json");
  std::string line;
  std::getline(in, line);  // the source
  Json family;
  std::int64_t same = 0;
  std::int64_t refused = 0;
  while (std::getline(in, line)) {
    const Json entries = Json::parse(line);
    if (entries.contains("family")) family = entries;
    for (const Json& entry : changes_of(entries)) {
      Json file = family.at("base");
      file["model_type"] = family.at("family");
      file.update(entry.value("set", Json::object()));
      for (const Json& key : entry.value("drop", Json::array())) file.erase(key.get<std::string>());
      SCOPED_TRACE(family.at("family").get<std::string>() + " " + entry.dump());
      ModelConfig model;
      const std::string complaint = complaint_about(file, model);
      if (entry.contains("error")) {
        if (!is_taken_all_the_same(family.at("family"), entry)) {
          EXPECT_NE(complaint, "") << "transformers refuses it";
        }
        continue;
      }
      if (complaint.empty()) {
        Json expected = family.at("facts");
        expected.update(entry.at("facts"));
        const Json found = facts_of(model);
        for (const auto& [fact, value] : expected.items()) {
          if (value.is_null()) continue;
          EXPECT_EQ(found.at(fact), value) << fact;
        }
        ++same;
        continue;
      }
      ++refused;
    }
  }
  RecordProperty("same", static_cast<int>(same));
  RecordProperty("refused",
                 static_cast<int>(refused));  // sizes that are missing, features that plumbline has not
  EXPECT_GT(same, 6 * refused);
}

}  // namespace
}  // namespace plumbline::drawn_models_test
