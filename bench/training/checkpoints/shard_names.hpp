// Names of a shard's pieces: state, whole shape, place and name of the tensor, in one text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/training/checkpoints/tensor_pieces.hpp"

namespace plumbline::training {

/// States of a parameter, and the state of FP8 scaling.
inline constexpr std::string_view kWeightState = "weight";
inline constexpr std::string_view kMoment1State = "moment1";
inline constexpr std::string_view kMoment2State = "moment2";
inline constexpr std::string_view kFp8State = "fp8";

struct StatePiece {
  std::string state;
  TensorPiece piece;  // offset and stride are not part of the name
};

/// "moment1|4096x1024|128:256|0:1024|model.layers.0.mlp.up_proj.weight": rows 128 to 255 of 4096 × 1024.
std::string shard_name(std::string_view state, const TensorPiece& piece);
/// The other way round; nothing for a text that is no such name, or a place outside of its tensor.
std::optional<StatePiece> parse_shard_name(std::string_view name);

}  // namespace plumbline::training
