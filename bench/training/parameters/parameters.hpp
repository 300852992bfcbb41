// The parameters a rank holds and where each of their elements is in the tensors of a Hugging Face
// checkpoint. Pure data: any rank can list what any other rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::training {

/// A rectangle of a checkpoint tensor inside a local matrix. Row and column count in the orientation of the
/// local matrix, (out, in); `transposed`: the checkpoint stores (in, out), as GPT-2 does.
struct Slice {
  std::string tensor;
  std::int64_t tensor_rows = 0;  // whole tensor, in (out, in) orientation; a vector has one row
  std::int64_t tensor_cols = 0;
  bool vector = false;  // one-dimensional in the checkpoint
  bool transposed = false;
  bool less_one = false;  // the checkpoint has one less than the parameter is
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t local_row = 0;
  std::int64_t local_col = 0;
};

/// Initial values of a parameter. uniform: within 1/sqrt(inputs), as PEFT initialises A (torch's Kaiming
/// uniform with a = sqrt(5)).
enum class Fill { normal, ones, zeros, uniform };

/// In place of a unit: a vector; a vector that no gradient trains, of fp32.
inline constexpr int kVector = -1;
inline constexpr int kUntrained = -2;

/// Role of the copy of the embedding that modules look tokens up in if it is no output layer.
inline constexpr const char* kEmbeddingCopy = "embedding_copy.weight";

struct Parameter {
  std::string role;         // "qkv.weight", …: unique within its layer
  std::int64_t layer = -1;  // global index; -1 outside the layers
  std::int64_t rows = 0;    // a vector has one row
  std::int64_t cols = 0;
  int unit = kVector;       // of the stage's units, or one of the two above
  std::int64_t offset = 0;  // first element in its unit, or in the stage's vectors or untrained numbers
  Fill fill = Fill::normal;
  bool replicated = false;  // the same on every tensor rank
  bool tied_copy = false;   // the last stage's copy of the embedding, as the output layer or for modules
  bool spread = false;      // of experts that are spread over ranks
  std::vector<Slice> slices;
  std::vector<std::int64_t> joined;  // of an adapter's B: rows for each A

  std::int64_t elements() const { return rows * cols; }
  std::int64_t end() const { return offset + elements(); }
};

/// True for A and B of LoRA's adapters.
bool is_adapter(const Parameter& parameter);

/// Everything a stage holds. Its matrices form units, which are sharded, gathered and reduced as a whole:
/// embedding, positions, each layer, each MTP module, output layer, the modules' copy of the embedding. The
/// experts of each layer follow if they are spread over ranks. Its vectors are contiguous, the replicated
/// ones first.
struct ParameterLayout {
  std::vector<Parameter> list;              // in model order
  std::vector<std::int64_t> unit_elements;  // of each unit
  bool frozen = false;                      // adapters alone train, whose units are:
  std::vector<int> adapter_units;           // ascending
  double adapter_scale = 1;                 // of their results
  int spread_units = 0;                 // of these, the last: a layer's experts each, where they are spread
  std::int64_t vectors = 0;             // elements
  std::int64_t replicated_vectors = 0;  // of these
  std::int64_t untrained = 0;           // elements

  /// Has gradients: `unit` as a parameter has it.
  bool trains(int unit) const;
  /// Throws Error when there is none.
  const Parameter& find(std::string_view role, std::int64_t layer = -1) const;
};

}  // namespace plumbline::training
