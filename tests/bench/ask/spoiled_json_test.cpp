// Every reader of JSON, given texts that are one change away from a good one: it accepts them or refuses them
// in its own words, never in those of the JSON library.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/accelerator_file.hpp"
#include "analysis/published/dialect/table_header.hpp"
#include "analysis/reliability/fleet.hpp"
#include "analysis/simulate/costs_json.hpp"
#include "analysis/topology/slurm_topology.hpp"
#include "bench/ask/answer.hpp"
#include "bench/record/record.hpp"
#include "bench/show/report/timelines.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/yaml_text.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/load_config.hpp"
#include "core/config_text/matrix_config.hpp"
#include "core/files/chat_data.hpp"
#include "core/files/safetensors.hpp"
#include "core/files/safetensors_header.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "tests/support/spoiled_json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::spoiled_json_test {
namespace {

using Read = std::function<void(const std::string& text)>;

std::string corpus(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(PLUMBLINE_SOURCE_DIR "/tests/fuzz/" + name).rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

struct Reader {
  std::string name;
  std::string text;
  Read read;
};

/// Readers of a text.
std::vector<Reader> readers_of_texts() {
  static const Schedule kSchedule = parse_schedule_csv("0F0,0F1,0B0,0B1\n", "f");
  return {
      {"profile", corpus("json_corpus/profile.json"), [](const std::string& t) { parse_hardware(t, "f"); }},
      {"record", corpus("json_corpus/record.json"), [](const std::string& t) { parse_record(t, "f"); }},
      {"measurement", corpus("json_corpus/measurement.json"),
       [](const std::string& t) { parse_measurement(t, "f"); }},
      {"timelines", corpus("json_corpus/timelines.json"),
       [](const std::string& t) { parse_timeline_json(t, "f"); }},
      {"costs", corpus("json_corpus/costs.json"),
       [](const std::string& t) { parse_costs_json(t, "f", kSchedule); }},
      {"schedule", to_json(kSchedule), [](const std::string& t) { parse_schedule_json(t, "f"); }},
      {"accelerator",
       R"({"name": "mine", "like": "h100-sxm-80gb", "network": "nvlink5-72-ndr",)"
       R"( "constants": {"memory_bytes": {"value": 96e9, "source": "its datasheet", "dense": true}}})",
       [](const std::string& t) {
         describes_accelerator(t);
         parse_accelerator(t, "f");
       }},
      {"fleet",
       R"({"gpus_per_node": 4, "observed": {"nodes": 10, "days": 5}, "causes": [{"cause": "a", "count": 5,)"
       R"( "takes_node": false, "detect_s": 9}, {"cause": "b", "mtbf_hours": 24000, "per_node": 4}]})",
       [](const std::string& t) { parse_fleet(parse_yaml_object(t, "f"), "f", "f"); }},
      {"header",
       R"({"defaults": {"hardware": "h", "mbs": 1}, "flops": "palm", "peak_tflops": 312, "label": "{gbs}",)"
       R"( "columns": {"batch": "gbs", "t": {"key": "tp", "values": {"1": 2}}}})",
       [](const std::string& t) { parse_header(t, "f"); }},
      {"DeepSpeed", corpus("launch_corpus/zero.json"),
       [](const std::string& t) {
         if (const auto launch = read_launch_file(t, "f.json", {})) launch->require_modelled();
       }},
      {"tensors",
       R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [1, 2],)"
       R"( "data_offsets": [0, 8]}})",
       [](const std::string& t) { parse_safetensors_header(t, 8, "f"); }},
      {"model key",
       R"({"model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2,)"
       R"( "vocab_size": 16, "n_positions": 8}})",
       [](const std::string& t) {
         load_run_config("", {{"model", OrderedJson::parse(t)["model"].dump()}});
       }},
  };
}

/// Slurm's topologies are lists; a value of theirs is spoiled.
TEST(SpoiledJson, OfTextsIsRefusedInOurWords) {
  for (const Reader& reader : readers_of_texts()) {
    SCOPED_TRACE(reader.name);
    const bool whole = reader.name != "model key";
    const Read read = [&](const std::string& text) {
      if (whole || (OrderedJson::accept(text) && OrderedJson::parse(text).contains("model")))
        reader.read(text);
    };
    test::expect_own_words(reader.name, reader.text, read);
  }
  test::expect_own_words(
      "switches",
      R"({"topology": "t", "cluster_default": true, "tree": {"switches": [{"switch": "s0",)"
      R"( "nodes": "n[0-3]"}, {"switch": "top", "children": "s[0-0]"}]}})",
      [](const std::string& text) { parse_slurm_yaml("[" + text + "]", "f"); });
}

TEST(SpoiledJson, OfModelsIsRefusedInOurWords) {
  for (const std::string& name : preset_names()) {
    const ModelConfig* model = find_preset(name);
    ASSERT_NE(model, nullptr);
    test::expect_own_words(name, to_config_json(*model),
                           [](const std::string& text) { parse_model_config(text, "f"); });
  }
}

TEST(SpoiledJson, OfFilesIsRefusedInOurWords) {
  const test::TemporaryFolder folder;
  const auto in_file = [&](const std::string& name,
                           const std::function<void(const std::string& path)>& read) {
    return [&folder, name, read](const std::string& text) { read(folder.write(name, text)); };
  };
  const std::string model = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2,)"
                            R"( "vocab_size": 16, "n_positions": 8})";
  folder.write("a.safetensors", std::string("\x38\0\0\0\0\0\0\0", 8) +
                                    R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )" + "abcd");
  const std::vector<Reader> readers = {
      {"index", R"({"metadata": {"total_size": 4}, "weight_map": {"a": "a.safetensors"}})",
       in_file("model.safetensors.index.json", [&](const std::string&) { TensorFile(folder.folder_); })},
      {"chats", R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 3], "text": "a"})",
       in_file("chats.jsonl", [](const std::string& path) { ChatData(path, 16, 8); })},
      {"run", R"({"model": )" + model + R"(, "seq_length": 8, "precision": "fp32", "tp": 1, "dp": 2})",
       in_file("run.json", [](const std::string& path) { load_run_config(path, {}); })},
      {"config.json", model,
       in_file("config.json", [](const std::string& path) { load_run_config(path, {}); })},
      {"matrix",
       R"({"model": )" + model +
           R"(, "seq_length": 8, "matrix": {"tp": [1, 2], "gbs": [4]},)"
           R"( "include": [{"tp": 1, "gbs": 8}], "exclude": [{"tp": 2}]})",
       in_file("matrix.yaml", [](const std::string& path) { load_matrix(path, {}); })},
  };
  for (const Reader& reader : readers) {
    SCOPED_TRACE(reader.name);
    test::expect_own_words(reader.name, reader.text, reader.read);
  }
}

TEST(SpoiledJson, OfQuestionsIsAnsweredInOurWords) {
  const AskCancels at_once{[](std::string_view) { return true; }, {}};
  for (const char* name :
       {"predict", "legality", "compare", "search", "cancel", "schedule", "simulate", "model"}) {
    const std::string request = corpus(std::string("ask_corpus/") + name + ".json");
    const auto ask = [&](const std::string& text) {
      const std::string reply = answer(text, {}, at_once);
      EXPECT_EQ(reply.find("json.exception"), std::string::npos) << text << "\n" << reply;
      EXPECT_EQ(reply.find(R"("exit_code":4)"), std::string::npos) << text << "\n" << reply;
    };
    ask(request.substr(0, request.size() / 2));
    test::each_spoiled(request, ask);
  }
}

}  // namespace
}  // namespace plumbline::spoiled_json_test
