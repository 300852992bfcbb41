#include "tests/bench/convert/convert_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "bench/convert/hugging_face_layout.hpp"
#include "core/base/error.hpp"
#include "core/checkpoints/pickle.hpp"
#include "core/checkpoints/torch_writer.hpp"
#include "core/checkpoints/zip_writer.hpp"
#include "core/files/safetensors.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::convert {

namespace fs = std::filesystem;

ConvertFolder::ConvertFolder() {
  std::error_code error;
  // Files are synchronised to the disk: in memory that takes no time.
  const fs::path base =
      fs::is_directory("/dev/shm", error) ? fs::path("/dev/shm") : fs::path(testing::TempDir());
  std::string pattern = (base / "plumbline-convert-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the test");
  folder_ = pattern;
}

ConvertFolder::~ConvertFolder() {
  fs::remove_all(folder_);
}

void ConvertFolder::write(const std::string& name, const std::string& bytes) const {
  fs::create_directories(fs::path(at(name)).parent_path());
  std::ofstream(at(name), std::ios::binary) << bytes;
}

std::string ConvertFolder::read(const std::string& name) const {
  std::ifstream in(at(name), std::ios::binary);
  std::ostringstream bytes;
  if (in.peek() != std::ifstream::traits_type::eof()) bytes << in.rdbuf();
  return bytes.str();
}

std::string ConvertFolder::make(const std::string& name, const std::string& config, StoredType type) const {
  write(name + "/config.json", config);
  const ModelConfig model = parse_model_config(config, name);
  std::vector<TensorFileWriter::Entry> entries;
  for (const TensorLayout& layout : hugging_face_layout(model))
    entries.push_back({layout.name, type, layout.shape()});
  TensorFileWriter writer(at(name + "/model.safetensors"), entries);
  std::mt19937_64 random(7);
  for (const TensorFileWriter::Entry& entry : entries) {
    std::int64_t bytes = size_of(type);
    for (const std::int64_t size : entry.shape) bytes *= size;
    std::vector<std::uint64_t> values(static_cast<std::size_t>(bytes + 7) / 8);
    std::generate(values.begin(), values.end(), [&] { return random(); });
    writer.write(entry.name, std::as_bytes(std::span(values)).first(static_cast<std::size_t>(bytes)));
  }
  writer.finish();
  return at(name);
}

void ConvertFolder::write_bin(const std::string& name,
                              const std::map<std::string, StoredTensor>& tensors) const {
  PickleWriter pickle;
  pickle.begin_dict();
  int number = 0;
  for (const auto& [tensor, stored] : tensors) {
    pickle.text(tensor);
    pickle.global("torch._utils", "_rebuild_tensor_v2");
    pickle.begin_tuple();
    pickle.begin_tuple();
    pickle.text("storage");
    pickle.global("torch", stored.type == StoredType::fp32 ? "FloatStorage" : "BFloat16Storage");
    pickle.text(std::to_string(number++));
    pickle.text("cpu");
    pickle.integer(stored.elements());
    pickle.end_tuple();
    pickle.persistent();
    pickle.integer(0);
    pickle.integers(stored.shape);
    pickle.integers(stored.shape.size() == 2 ? std::vector{stored.shape[1], std::int64_t{1}}
                                             : std::vector{std::int64_t{1}});
    pickle.boolean(false);
    pickle.integers({});
    pickle.end_tuple();
    pickle.call();
  }
  pickle.end_dict();
  write(name, "");
  const int file = ::open(at(name).c_str(), O_RDWR);
  ZipWriter zip(file, name);
  zip.add("bin/data.pkl", pickle.finish());
  number = 0;
  for (const auto& [tensor, stored] : tensors) {
    zip.add(fmt::format("bin/data/{}", number++),
            {reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size()});
  }
  zip.finish();
  ::close(file);
}

void ConvertFolder::rewrite(const std::string& name,
                            const std::map<std::string, StoredTensor>& tensors) const {
  TorchDictionary dictionary{"model", {}};
  for (const auto& [tensor, stored] : tensors)
    dictionary.tensors.push_back({tensor, stored.type, stored.shape});
  TorchFileWriter writer(at(name), {dictionary});
  for (const auto& [tensor, stored] : tensors) writer.write(stored.bytes);
  writer.finish();
}

ConvertReport ConvertFolder::convert(const std::string& from, const std::string& to,
                                     const MegatronTarget& megatron,
                                     std::optional<CheckpointFormat> format) const {
  ConvertRequest request;
  request.from = at(from);
  request.to = at(to);
  request.megatron = megatron;
  request.format = format;
  return convert_checkpoint(request, [](Bytes, Bytes) {});
}

std::string ConvertFolder::complaint(const ConvertRequest& request) const {
  return test::refusal_of([&] { convert_checkpoint(request, [](Bytes, Bytes) {}); });
}

std::vector<std::pair<std::string, std::string>> ConvertFolder::files_of(const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(at(name))) {
    if (!entry.is_regular_file() || entry.path().filename() == "conversion.json") continue;
    const std::string relative = fs::relative(entry.path(), folder_).string();
    files.emplace_back(relative.substr(name.size()), read(relative));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string llama_config(int layers) {
  return fmt::format(
      R"({{"model_type":"llama","num_hidden_layers":{},"hidden_size":32,"num_attention_heads":4,)"
      R"("num_key_value_heads":2,"head_dim":16,"intermediate_size":48,"vocab_size":117,)"
      R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"tie_word_embeddings":false}})",
      layers);
}

std::vector<std::string> family_configs(int layers) {
  const std::string common =
      fmt::format(R"("num_hidden_layers":{},"hidden_size":32,"num_attention_heads":4,"intermediate_size":48,)"
                  R"("vocab_size":61,"max_position_embeddings":32)",
                  layers);
  const std::string groups = common + R"(,"num_key_value_heads":2)";
  const std::string gpt =
      fmt::format(R"("n_layer":{},"n_embd":32,"n_head":4,"n_positions":24,"vocab_size":61)", layers);
  const auto config = [](const char* type, const std::string& keys, const char* more = "") {
    return fmt::format(R"({{"model_type":"{}",{}{}}})", type, keys, more);
  };
  return {
      llama_config(layers),
      config("llama", groups, R"(,"attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true)"),
      config("mistral", groups),
      config("qwen2", groups, R"(,"tie_word_embeddings":true)"),
      config("qwen3", groups),
      config("gemma", common, R"(,"num_key_value_heads":1,"head_dim":16)"),
      config("nemotron", groups),
      config("gpt2", gpt),
      config("gpt_bigcode", gpt),
      config("starcoder2", groups),
      config("opt", common, R"(,"ffn_dim":48)"),
      config("phi3", groups),
      config("glm", groups, R"(,"head_dim":8)"),
      config("chatglm",
             fmt::format(R"("num_layers":{},"hidden_size":32,"num_attention_heads":4,"ffn_hidden_size":48,)"
                         R"("multi_query_attention":true,"multi_query_group_num":2,"kv_channels":8,)"
                         R"("add_qkv_bias":true,"padded_vocab_size":61,"seq_length":64)",
                         layers)),
      config("baichuan", common),
      config("qwen2_moe", groups,
             R"(,"moe_intermediate_size":24,"num_experts":4,"num_experts_per_tok":2,)"
             R"("shared_expert_intermediate_size":40,"decoder_sparse_step":1,"qkv_bias":true,)"
             R"("norm_topk_prob":false)"),
      config("glm4_moe", groups,
             R"(,"head_dim":8,"moe_intermediate_size":16,"n_routed_experts":8,"num_experts_per_tok":3,)"
             R"("n_shared_experts":1,"n_group":4,"topk_group":2,"routed_scaling_factor":1.5,)"
             R"("norm_topk_prob":true,)"
             R"("first_k_dense_replace":1,"use_qk_norm":true,"attention_bias":true,)"
             R"("partial_rotary_factor":0.5)"),
      config(
          "deepseek_v3", common,
          R"(,"moe_intermediate_size":16,"n_routed_experts":8,"num_experts_per_tok":3,"n_shared_experts":2,)"
          R"("n_group":4,"topk_group":2,"routed_scaling_factor":2.5,"norm_topk_prob":true,)"
          R"("first_k_dense_replace":1,)"
          R"("num_key_value_heads":4,"q_lora_rank":20,"kv_lora_rank":16,"qk_nope_head_dim":10,)"
          R"("qk_rope_head_dim":6,)"
          R"("v_head_dim":12,"rope_interleave":true)"),
      config("seed_oss", groups, R"(,"head_dim":8)"),
      config("ministral", groups),
      config("ernie4_5", groups, R"(,"head_dim":8,"use_bias":true)"),
      config("stablelm", groups),
      config("smollm3", groups),
      config("arcee", groups),
      config("dots1", groups,
             R"(,"head_dim":8,"moe_intermediate_size":16,"n_routed_experts":8,"num_experts_per_tok":3,)"
             R"("n_shared_experts":1,"norm_topk_prob":true,"first_k_dense_replace":1,)"
             R"("routed_scaling_factor":2.0)"),
      config("mixtral", groups, R"(,"num_local_experts":4,"num_experts_per_tok":2)"),
      config("qwen3_moe", common,
             R"(,"num_key_value_heads":2,"head_dim":8,"moe_intermediate_size":24,"num_experts":4,)"
             R"("num_experts_per_tok":2,"norm_topk_prob":true)")};
}

std::string family_config(int layers, std::string_view model_type) {
  for (const std::string& config : family_configs(layers)) {
    if (config.find(fmt::format(R"("model_type":"{}")", model_type)) != std::string::npos) return config;
  }
  ADD_FAILURE() << "no family " << model_type;
  return {};
}

std::vector<std::string> different_tensors(const std::string& a, const std::string& b) {
  const TensorFile left(a);
  const TensorFile right(b);
  std::set<std::string> names;
  for (const std::string& name : left.names()) names.insert(name);
  for (const std::string& name : right.names()) names.insert(name);
  std::vector<std::string> different;
  for (const std::string& name : names) {
    const StoredTensor* x = left.find(name);
    const StoredTensor* y = right.find(name);
    const bool same = x != nullptr && y != nullptr && x->type == y->type && x->shape == y->shape &&
                      std::memcmp(x->bytes.data(), y->bytes.data(), x->bytes.size()) == 0;
    if (!same) different.push_back(name);
  }
  return different;
}

}  // namespace plumbline::convert
