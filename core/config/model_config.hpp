// The shape of a decoder-only transformer, read from a Hugging Face config.json or taken from a preset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/hybrid_layers.hpp"
#include "core/config/predicted_switches.hpp"

namespace plumbline {

enum class Norm { rms, layer };
/// swiglu and geglu have two projections, one of which gates the other. gelu is GPT-2's tanh approximation
/// ("gelu_new"), also used in geglu; gelu_erf is the exact one.
enum class Activation { swiglu, geglu, gelu, gelu_erf, relu, squared_relu };
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}
/// alibi: none in the stream, but every score loses its head's slope times the distance (Press et al. 2022,
/// arXiv:2108.12409). none: of hybrid models, whose other mixers know the order.
enum class Positions { rotary, learned, alibi, none };
/// Elements of a head that rotary embeddings rotate together: i and i + half, or 2i and 2i + 1.
enum class RotaryPairs { halves, neighbours };
/// sequential: the MLP reads attention's sum. parallel: both read the layer's input, each through its own
/// norm. parallel_one_norm: through the same norm.
enum class Block { sequential, parallel, parallel_one_norm };

/// Frequency scaling of rotary embeddings ("llama3" type of Llama 3.1); factor 1 means none.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 8192;
  /// A type that is predicted and not executed (yarn, longrope, linear, dynamic): it changes frequencies, no
  /// byte and no FLOP. Empty: none.
  std::string predicted_type = "";
};

/// Function of a router's logits: a softmax over all experts, or the sigmoid of each.
enum class RouterScores { softmax, sigmoid };

/// MoE feed-forward layers: `experts` of the width ModelConfig::ffn. A router picks top_k for every token and
/// adds up their results with weights.
struct Mixture {
  std::int64_t experts = 0;  // 0: none, one feed-forward layer for all tokens
  std::int64_t top_k = 0;
  bool normalized = true;    // a token's weights are divided by their sum: a softmax over its experts alone
  std::int64_t shared = 0;   // width of an expert that all tokens go through; 0: none
  bool shared_gated = true;  // its result is weighted by the logistic function of a product with the token
  std::int64_t first_dense = 0;  // layers in front that have one feed-forward layer for all tokens instead
  std::int64_t dense_ffn = 0;    // its width
  /// Width that tokens are projected to before they go to their experts, and back from ("latent" experts of
  /// Nemotron 3; Megatron-Core, moe_latent_size); 0: none.
  std::int64_t latent = 0;
  RouterScores scores = RouterScores::softmax;
  /// Group-limited routing (DeepSeek-AI 2024, arXiv:2412.19437 §2.1.2): a token's experts are picked in the
  /// chosen_groups whose two best scores have the largest sum.
  std::int64_t groups = 1;
  std::int64_t chosen_groups = 1;
  double routed_scale = 1;  // factor of the weights
  bool expert_bias =
      false;  // a number per expert, not trained by gradients, is added to scores for the choice
  explicit operator bool() const { return experts > 0; }
  friend bool operator==(const Mixture&, const Mixture&) = default;
};

/// Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434 §2.1). Queries, and keys with values, are
/// made from short normed vectors. A head of queries and keys ends with rotated elements, and all heads share
/// the keys' ones.
struct LatentAttention {
  std::int64_t query_rank = 0;  // width of the queries' compressed form; 0: the layer's input
  std::int64_t kv_rank = 0;     // of that of keys and values; 0: no latent attention
  std::int64_t nope_dim = 0;    // elements of a head of queries and keys that are not rotated
  std::int64_t rope_dim = 0;    // those that are; together ModelConfig::head_dim
  std::int64_t value_dim = 0;   // a head of values
  explicit operator bool() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// Factors of granite's files.
struct Multipliers {
  double attention = 1;  // of scores, besides 1/sqrt(head_dim)
  double residual = 1;   // of the results that attention and the MLP add to the stream
  double logits = 1;
  friend bool operator==(const Multipliers&, const Multipliers&) = default;
};

/// File that a model was read from.
struct ModelSource {
  std::string file;      // its config.json, an absolute path; empty: a preset, or inline
  std::string left_out;  // keys of the file whose parts are no part of this model: "vision_config"
};

/// Positions of tokens, and the learned table of them.
struct PositionConfig {
  Positions kind = Positions::rotary;
  std::int64_t max = 0;
  std::int64_t offset = 0;    // rows of the learned position table before that of position 0
  bool alibi_scaled = false;  // slopes are divided by sqrt(head_dim), as scores are
  /// A token has two positions (GLM, Du et al. 2022, arXiv:2103.10360 §2.2). The first is its own, or that
  /// of the prefix that it continues; the second its distance behind the prefix. Rotary: each half of a head
  /// rotates by one of them. Learned: two tables of `max` rows, one after the other.
  bool of_blocks = false;
};

/// Rotary embeddings.
struct RotaryConfig {
  double theta = 10000;
  RopeScaling scaling;
  std::int64_t dim = 0;  // leading elements of a head that are rotated; 0: all
  RotaryPairs pairs = RotaryPairs::halves;
  std::vector<bool> unrotated;  // layers without rotary embeddings; empty: none
};

struct NormConfig {
  Norm kind = Norm::rms;
  double epsilon = 1e-6;
  bool less_one = false;     // norms multiply with 1 + weight: a checkpoint has the weight less one
  bool output_rows = false;  // the output layer's rows have length 1 in products ("NormHead")
  /// Input of the residual addition of attention and MLP. 0: the stream; else their own norm's output times
  /// this (GLM, which calls it DeepNorm; Megatron's apply_residual_connection_post_layernorm with 1).
  double residual = 0;
  bool qk = false;          // an RMS norm over each head of queries and keys, before they are rotated
  bool qk_rotated = false;  // or after
};

struct BiasConfig {
  bool qkv = false;
  bool linear = false;  // attention output and feed-forward projections
  bool output = false;  // of the output layer
};

struct EmbeddingConfig {
  bool tied = false;  // its weight is the output layer's, too
  bool norm = false;  // a norm after the embedding
  double scale = 1;   // factor of embedded tokens
  /// One output a token, of a value or a score, in place of the vocabulary's: critics and reward models.
  bool scalar_head = false;
};

/// Sliding-window attention.
struct WindowConfig {
  /// W, keys that a query of a layer with it sees: at position i those at positions j with i - W < j <= i.
  /// 0: no layer has a window; larger than the sequence: it changes nothing.
  std::int64_t size = 0;
  std::vector<bool> full_layers;  // with a window, whether each layer sees all keys; empty: none does
};

struct ModelConfig {
  std::string name;          // preset name or path, for people
  std::string architecture;  // model_type of a config.json (families.hpp)
  ModelSource source;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;     // query heads
  std::int64_t kv_heads = 0;  // key/value heads
  std::int64_t head_dim = 0;  // of queries and keys
  std::int64_t ffn =
      0;  // width of the feed-forward layer, or of an expert; with a gate there are two such projections
  Mixture mixture;
  LatentAttention latent;
  HybridLayers hybrid;
  std::int64_t vocab = 0;
  /// MTP modules, each a layer after the last and a pass of the output layer (DeepSeek-AI 2024,
  /// arXiv:2412.19437 §2.2). Set by the key mtp_num_layers, or by a published table, not by config.json:
  /// transformers leaves them out, too.
  std::int64_t prediction_modules = 0;
  Activation activation = Activation::swiglu;
  Block block = Block::sequential;
  PositionConfig position;
  RotaryConfig rotary;
  NormConfig norms;
  BiasConfig biases;
  EmbeddingConfig embedding;
  WindowConfig window;
  Multipliers multipliers;
  double init_std = 0.02;
  PredictedSwitches predicted;

  /// Parameters as Hugging Face counts them: tied embeddings once, vocabulary not padded. All are trained but
  /// expert_biases().
  std::int64_t parameters() const;
  /// Parameters of the MTP modules, which the number above leaves out; embedding and output layer are the
  /// model's.
  std::int64_t module_parameters() const;
  /// Parameters that a token goes through: top_k experts in every MoE layer. Embeddings are counted.
  std::int64_t active_parameters() const;
  /// Biases of all routers (Mixture::expert_bias): without gradient and optimizer state.
  std::int64_t expert_biases() const { return mixture.expert_bias ? mixture.experts * mixture_layers() : 0; }
  /// Layers with experts, and whether a layer is one.
  std::int64_t mixture_layers() const { return mixture_layers(0, layers); }
  bool has_experts(std::int64_t layer) const;
  /// Layers with experts among the `count` from layer `first` on.
  std::int64_t mixture_layers(std::int64_t first, std::int64_t count) const;
  /// Width of the feed-forward layers of layers without experts.
  std::int64_t dense_ffn() const { return mixture ? mixture.dense_ffn : ffn; }
  /// Columns of the output layer, without padding.
  std::int64_t outputs() const { return embedding.scalar_head ? 1 : vocab; }
  /// Elements of a head of values.
  std::int64_t value_dim() const { return latent ? latent.value_dim : head_dim; }
  /// Elements of a head that are rotated.
  std::int64_t rotated() const { return rotary.dim == 0 ? head_dim : rotary.dim; }
  /// Rows of the learned position table, 0: there is none.
  std::int64_t position_rows() const {
    if (position.kind != Positions::learned) return 0;
    return (position.of_blocks ? 2 : 1) * position.max + position.offset;
  }
  /// Layers with attention, with a Mamba mixer, and with a feed-forward layer.
  std::int64_t attention_layers() const { return hybrid.with(Mixer::attention, layers); }
  std::int64_t mamba_layers() const { return hybrid.with(Mixer::mamba, layers); }
  std::int64_t feed_forward_layers() const { return hybrid.with_feed_forward(layers); }
  /// Width of what experts read and give.
  std::int64_t expert_width() const { return mixture.latent > 0 ? mixture.latent : hidden; }
  /// Norms of all layers, those of queries and keys not counted: each mixer and feed-forward layer has one.
  std::int64_t norm_count() const {
    return hybrid ? attention_layers() + mamba_layers() + feed_forward_layers() : layers * layer_norms();
  }
  /// Norms of a layer, those of queries and keys not counted.
  std::int64_t layer_norms() const {
    if (predicted.norms == NormPlaces::both) return 4;
    return block == Block::parallel_one_norm ? 1 : 2;
  }
  /// Weight vectors of a norm.
  std::int64_t norm_vectors() const {
    if (norms.kind == Norm::rms) return 1;
    return predicted.norm_vectors >= 0 ? predicted.norm_vectors : 2;
  }
  /// Weights of the norms of queries and keys in a layer.
  std::int64_t query_norm_weights() const;
  bool has_projection_bias() const { return biases.linear || predicted.projection_bias; }
  bool has_feed_forward_bias() const { return biases.linear || predicted.feed_forward_bias; }
  /// True for a layer with rotary embeddings; an MTP module is a layer after the last.
  bool rotates(std::int64_t layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return position.kind == Positions::rotary &&
           (index >= rotary.unrotated.size() || !rotary.unrotated[index]);
  }
  /// The window of a layer, 0: it has none.
  std::int64_t window_of(std::int64_t layer) const;
  /// keys_per_query, the mean over the layers.
  double mean_keys(std::int64_t seq_length, std::int64_t prefix = 0) const;
};

/// Mean number of keys that a query sees, over the positions of a sequence: half of it. Pairs are counted as
/// an area, so s²/2 of them lie below the diagonal. A window 0 < W < s hides the pairs with j <= i - W, a
/// triangle of side s - W; (s² - (s-W)²)/2 = W·s - W²/2 pairs are left. A prefix of p tokens that see
/// each other adds the triangle above the diagonal, p²/2 pairs; it cannot be combined with a window.
double keys_per_query(std::int64_t seq_length, std::int64_t window, std::int64_t prefix = 0);
/// The same where a query sees the keys of its own chunk up to itself.
double keys_per_chunk(std::int64_t seq_length, std::int64_t chunk);

/// Reads a Hugging Face config.json of one of families(). Throws InputError naming file, key, the value found
/// and the supported values.
ModelConfig load_model_config(const std::string& path);
/// The same from text; `origin` stands for the file in messages. The name is "_name_or_path", or else
/// `origin`.
ModelConfig parse_model_config(std::string_view json, const std::string& origin);
/// The config.json that parse_model_config reads back to the same ModelConfig (`name` under "_name_or_path").
std::string to_config_json(const ModelConfig& config);
/// A preset such as "qwen2.5-0.5b"; nullptr when there is none of that name.
const ModelConfig* find_preset(std::string_view name);
/// Throws InputError for a name on the Hub that begins as those of models with other layers do (linear or
/// sparse attention), such as Qwen/Qwen3-Next-80B-A3B. `place`: where it is named, with its ": ".
void refuse_other_layers(const std::string& name, const std::string& place = "");
std::vector<std::string> preset_names();
/// A preset name (in any case), or else the path of a config.json (or of a folder that holds one).
ModelConfig resolve_model(const std::string& preset_or_path);

/// Why the heads or feed-forward columns of a model do not divide among `tensor` ranks, or empty.
std::optional<std::string> why_tensor_split_invalid(const ModelConfig& model, std::int64_t tensor);

/// A flag of Megatron-LM about the shape of a model.
struct ModelSize {
  std::string flag;    // "--num-layers"
  std::string value;   // as written
  std::string origin;  // "run.yaml:12: --num-layers"
};

/// True for a flag that with_sizes() knows.
bool is_model_size(const std::string& flag);

/// `model` with a file's sizes. Layers, widths, heads and the vocabulary are changed, with a line each in
/// `changes`; other sizes must be the model's own. Throws InputError: origin, found, expected.
ModelConfig with_sizes(const ModelConfig& model, const std::vector<ModelSize>& sizes,
                       std::vector<std::string>& changes);

}  // namespace plumbline
