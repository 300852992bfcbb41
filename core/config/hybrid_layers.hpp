// Models whose layers are not all attention with a feed-forward layer behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plumbline {

/// The mixer of a layer's tokens; none: it is a feed-forward layer alone.
enum class Mixer : std::uint8_t { attention, mamba, none };

/// A Mamba-2 mixer (Dao & Gu 2024, arXiv:2405.21060, §7): a product makes gates z, inputs x, B, C and step
/// sizes of all heads; x, B and C go through a short convolution over the tokens; a head's state of
/// head_dim · state elements is passed on from token to token, chunk by chunk.
struct Mamba {
  std::int64_t heads = 0;     // 0: the model has no such mixers
  std::int64_t head_dim = 0;  // elements of a head
  std::int64_t groups = 1;    // of heads that share B and C
  std::int64_t state = 0;     // N: elements of B and of C, in a group
  std::int64_t taps = 4;      // tokens that the convolution sees
  std::int64_t chunk = 128;   // tokens

  explicit operator bool() const { return heads > 0; }
  /// Elements of a token: of x, of what is convolved, and of the first product's result.
  std::int64_t inner() const { return heads * head_dim; }
  std::int64_t convolved() const { return inner() + 2 * groups * state; }
  std::int64_t projected() const { return inner() + convolved() + heads; }
  /// Weights besides the two products': of the convolution with its bias, A, D and the steps' bias by head,
  /// the norm of the result.
  std::int64_t vectors() const { return convolved() * (taps + 1) + 3 * heads + inner(); }
  friend bool operator==(const Mamba&, const Mamba&) = default;
};

/// Layers of a hybrid model; without any, every layer has attention and a feed-forward layer.
struct HybridLayers {
  Mamba mamba;
  std::vector<Mixer> mixers;       // by layer
  std::vector<bool> feed_forward;  // whether a layer has one, by layer

  explicit operator bool() const { return !mixers.empty(); }
  /// Layers behind the last are MTP modules', which have attention and a feed-forward layer.
  Mixer mixer(std::int64_t layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return index < mixers.size() ? mixers[index] : Mixer::attention;
  }
  bool has_feed_forward(std::int64_t layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return index >= feed_forward.size() || feed_forward[index];
  }
  /// Layers, of `layers` in all, with this mixer, and those with a feed-forward layer.
  std::int64_t with(Mixer mixer, std::int64_t layers) const {
    const auto known = std::min<std::int64_t>(layers, static_cast<std::int64_t>(mixers.size()));
    const auto found = std::count(mixers.begin(), mixers.begin() + known, mixer);
    return found + (mixer == Mixer::attention ? layers - known : 0);
  }
  std::int64_t with_feed_forward(std::int64_t layers) const {
    const auto known = std::min<std::int64_t>(layers, static_cast<std::int64_t>(feed_forward.size()));
    return layers - std::count(feed_forward.begin(), feed_forward.begin() + known, false);
  }
  friend bool operator==(const HybridLayers&, const HybridLayers&) = default;
};

}  // namespace plumbline
