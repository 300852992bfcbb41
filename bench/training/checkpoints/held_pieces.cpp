#include "bench/training/checkpoints/held_pieces.hpp"

#include <utility>

#include "bench/training/parameters/views.hpp"

namespace plumbline::training {
namespace {

enum class Which { to_write, to_read };

class Lister {
 public:
  Lister(const RankStages& stages, Which which)
      : stages_(stages),
        config_(stages.context().config),
        memory_(stages.memory()),
        at_(stages.context().communicator.layout().coordinates(stages.context().communicator.rank())),
        all_(which == Which::to_read) {
    sets_ = {{kWeightState, &(memory_.master ? memory_.master : memory_.values)}};
    if (memory_.moment1) sets_.emplace_back(kMoment1State, &memory_.moment1);
    if (memory_.moment2) sets_.emplace_back(kMoment2State, &memory_.moment2);
  }

  std::vector<HeldPiece> list() {
    for (const StageEntry& stage : stages_.parameters().stages) {
      if (!all_ && stage.part.route != 0) continue;
      if (all_ || at_.data == 0) add_vectors(stage);
      for (int i = 0; i < std::ssize(stage.parameters.unit_elements); ++i) {
        if (all_ || has_turn(stage.first_unit + i)) add_unit(stage, i);
      }
    }
    if (all_ || at_.tensor == 0) add_fp8();
    return std::move(pieces_);
  }

 private:
  /// Replicas that hold the same, or whole instances of the optimizer, take units round robin.
  bool has_turn(int unit) const {
    const Unit& asked = memory_.unit(unit);
    const Layout& layout = stages_.context().communicator.layout();
    const int copies = asked.spread ? config_.parallel.expert_copies() : config_.parallel.copies();
    const int mine = asked.spread ? layout.expert_place(at_).copy : at_.data;
    return unit % (copies / asked.pieces) == mine / asked.pieces;
  }
  bool writes(const Parameter& parameter) const {
    return all_ || (!parameter.tied_copy && (!parameter.replicated || at_.tensor == 0));
  }
  /// True if this rank writes the piece. The first holder writes key/value heads that several tensor ranks
  /// hold.
  bool writes(const Parameter& parameter, const TensorPiece& piece, std::int64_t offset) const {
    const int sharing = stages_.context().communicator.layout().kv_sharing;
    if (all_ || at_.tensor % sharing == 0) return true;
    const std::int64_t queries = stages_.context().shape.query;
    if (parameter.role == "qkv.weight")
      return offset + piece.offset < parameter.offset + queries * parameter.cols;
    if (parameter.role == "qkv.bias") return offset + piece.offset < parameter.offset + queries;
    return true;
  }

  /// One of the data ranks that have the slot.
  bool writes(const Fp8State& slot) const {
    const TrainingContext& context = stages_.context();
    if (!slot.of_expert || !context.shape.spread) return at_.data == 0;
    return context.communicator.layout().expert_place(at_).copy == 0;
  }

  void add(std::string_view state, TensorPiece piece, const Matrix& row) {
    const Matrix memory(row.at(0, piece.offset), piece.rows, piece.cols, piece.stride, row.dtype);
    pieces_.push_back({std::string(state), std::move(piece), memory});
  }

  void add_vectors(const StageEntry& stage) {
    for (const Parameter& parameter : stage.parameters.list) {
      if (!writes(parameter)) continue;
      if (parameter.unit == kVector && !stages_.context().frozen) {
        for (const TensorPiece& piece : pieces_of_stretch(parameter, 0, stage.parameters.vectors)) {
          if (!writes(parameter, piece, 0)) continue;
          for (const auto& [state, set] : sets_) add(state, piece, stage_vectors(*set, stage));
        }
      } else if (parameter.unit == kUntrained) {
        for (const TensorPiece& piece : pieces_of_stretch(parameter, 0, stage.parameters.untrained))
          add(kWeightState, piece, stage_untrained(memory_, stage));
      }
    }
  }

  void add_unit(const StageEntry& stage, int unit_of_stage) {
    const int unit = stage.first_unit + unit_of_stage;
    if (memory_.unit(unit).frozen) return;
    const std::int64_t from = memory_.owned_from(unit);
    const std::int64_t end = from + memory_.owned_elements(unit);
    for (const Parameter& parameter : stage.parameters.list) {
      if (parameter.unit != unit_of_stage || !writes(parameter)) continue;
      for (const TensorPiece& piece : pieces_of_stretch(parameter, from, end)) {
        if (!writes(parameter, piece, from)) continue;
        for (const auto& [state, set] : sets_) {
          if (const Matrix row = memory_.owned(*set, unit); row.data != nullptr) add(state, piece, row);
        }
      }
    }
  }

  void add_fp8() {
    for (const Fp8State& slot : stages_.fp8_states()) {
      if (!all_ && (slot.route != 0 || !writes(slot))) continue;
      const Matrix& memory = slot.memory;
      TensorPiece piece{slot.name,   memory.rows, memory.cols,  0, 0, memory.rows,
                        memory.cols, 0,           memory.stride};
      pieces_.push_back({std::string(kFp8State), std::move(piece), memory});
    }
  }

  const RankStages& stages_;
  const RunConfig& config_;
  const ParameterMemory& memory_;
  const Coordinates at_;
  const bool all_;
  std::vector<std::pair<std::string_view, const ParameterSet*>> sets_;
  std::vector<HeldPiece> pieces_;
};

template <class Copy>
void row_by_row(const Matrix& memory, const Copy& copy) {
  if (memory.contiguous()) return copy(memory, 0);
  for (std::int64_t row = 0; row < memory.rows; ++row) copy(memory.row_range(row, 1), row * memory.cols);
}

}  // namespace

std::vector<HeldPiece> pieces_to_write(const RankStages& stages) {
  return Lister(stages, Which::to_write).list();
}

std::vector<HeldPiece> pieces_to_read(const RankStages& stages) {
  return Lister(stages, Which::to_read).list();
}

void download_piece(Operators& operators, const Matrix& memory, float* host) {
  row_by_row(memory, [&](const Matrix& part, std::int64_t at) { operators.download(part, host + at); });
}

void upload_piece(Operators& operators, const float* host, const Matrix& memory) {
  row_by_row(memory, [&](const Matrix& part, std::int64_t at) { operators.upload(host + at, part); });
}

}  // namespace plumbline::training
