#include "bench/training/reinforcement/refit.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/checkpoints/tensor_pieces.hpp"
#include "bench/training/parameters/views.hpp"

namespace plumbline::reinforcement {
namespace {

using training::Parameter;
using training::RankResources;
using training::StageEntry;
using training::TensorPiece;
using training::Unit;

constexpr int kRefitTag = 3;

/// A rectangle of a tensor in a rank's memory.
struct Held {
  TensorPiece piece;
  std::size_t stage = 0;         // of the rank's
  int unit = training::kVector;  // of the rank's, or Parameter's marks
};
using HeldByTensor = std::map<std::string, std::vector<Held>>;

struct Rectangle {
  std::int64_t row, col, rows, cols;
};

Rectangle common(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row);
  const std::int64_t col = std::max(a.col, b.col);
  return {row, col, std::min(a.row + a.rows, b.row + b.rows) - row,
          std::min(a.col + a.cols, b.col + b.cols) - col};
}

/// The parts of `all` outside `hole`, which lies within.
void add_rest(const Rectangle& all, const Rectangle& hole, std::vector<Rectangle>& rest) {
  const auto add = [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    if (rows > 0 && cols > 0) rest.push_back({row, col, rows, cols});
  };
  add(all.row, all.col, hole.row - all.row, all.cols);
  add(hole.row + hole.rows, all.col, all.row + all.rows - hole.row - hole.rows, all.cols);
  add(hole.row, all.col, hole.rows, hole.col - all.col);
  add(hole.row, hole.col + hole.cols, hole.rows, all.col + all.cols - hole.col - hole.cols);
}

/// One side of a refit.
class Side {
 public:
  /// `owned`: other ranks' parts of units may be stale or absent here.
  Side(const RefitSide& side, bool owned) : side_(side), layout_(side.config.layout()), owned_(owned) {}

  int first() const { return side_.first; }
  int ranks() const { return layout_.world(); }
  /// Contents of a rank's memory. Pure data, for any rank of the refit.
  const HeldByTensor& of(int rank) {
    const auto [found, is_new] = held_.try_emplace(rank);
    const int own = rank - side_.first;
    if (is_new && own >= 0 && own < ranks()) list(own, found->second);
    return found->second;
  }

  /// The rectangle of `held` in this rank's memory.
  Matrix memory(const Held& held, const Rectangle& part) const {
    const Matrix row = row_of(held);
    const std::int64_t at =
        held.piece.offset + (part.row - held.piece.row) * held.piece.stride + part.col - held.piece.col;
    return {row.at(0, at), part.rows, part.cols, held.piece.stride, row.dtype};
  }

 private:
  Matrix row_of(const Held& held) const {
    const RankResources& model = *side_.model;
    const StageEntry& stage = model.parameters.stages[held.stage];
    if (held.unit == training::kVector) return stage_vectors(model.memory.values, stage);
    if (held.unit == training::kUntrained) return stage_untrained(model.memory, stage);
    return owned_ ? model.memory.owned(model.memory.values, held.unit)
                  : model.memory.whole(model.memory.values, held.unit);
  }

  std::pair<std::int64_t, std::int64_t> stretch_of(const Unit& unit, Coordinates at) const {
    if (!owned_ || unit.pieces == 1) return {0, unit.padded};
    const int copy = unit.spread ? layout_.expert_place(at).copy : at.data;
    const std::int64_t from = copy % unit.pieces * unit.owned();
    return {from, from + unit.owned()};
  }

  void list(int rank, HeldByTensor& held) const {
    const Coordinates at = layout_.coordinates(rank);
    const training::RankParameters parameters = rank_parameters(side_.config, side_.placement, at);
    for (std::size_t s = 0; s < parameters.stages.size(); ++s) {
      const StageEntry& stage = parameters.stages[s];
      for (const Parameter& parameter : stage.parameters.list) {
        int unit = parameter.unit;
        std::pair<std::int64_t, std::int64_t> stretch{0, parameter.end()};
        if (unit >= 0) {
          unit = stage.unit_of(parameter);
          stretch = stretch_of(parameters.units[static_cast<std::size_t>(unit)], at);
        }
        for (TensorPiece& piece : pieces_of_stretch(parameter, stretch.first, stretch.second)) {
          std::string tensor = piece.tensor;
          held[std::move(tensor)].push_back({std::move(piece), s, unit});
        }
      }
    }
  }

  const RefitSide& side_;
  const Layout layout_;
  const bool owned_;
  std::map<int, HeldByTensor> held_;
};

struct Transfer {
  const Held* source;
  const Held* destination;
  Rectangle part;
  std::int64_t elements() const { return part.rows * part.cols; }
};

/// Transfers to a rank, by source.
std::map<int, std::vector<Transfer>> transfers_to(int rank, Side& from, Side& to) {
  std::map<int, std::vector<Transfer>> found;
  for (const auto& [tensor, wanted] : to.of(rank)) {
    for (const Held& held : wanted) {
      const TensorPiece& piece = held.piece;
      std::vector<Rectangle> missing = {{piece.row, piece.col, piece.rows, piece.cols}};
      for (int i = 0; i < from.ranks() && !missing.empty(); ++i) {
        const int source = from.first() + (rank - to.first() + i) % from.ranks();
        const auto at = from.of(source).find(tensor);
        if (at == from.of(source).end()) continue;
        for (const Held& have : at->second) {
          const TensorPiece& other = have.piece;
          std::vector<Rectangle> rest;
          for (const Rectangle& each : missing) {
            const Rectangle part = common(each, {other.row, other.col, other.rows, other.cols});
            if (part.rows <= 0 || part.cols <= 0) {
              rest.push_back(each);
              continue;
            }
            found[source].push_back({&have, &held, part});
            add_rest(each, part, rest);
          }
          missing = std::move(rest);
        }
      }
    }
  }
  return found;
}

/// The contiguous place of a transfer in a message.
Matrix packed(const Matrix& message, std::int64_t at, const Rectangle& part) {
  return {message.at(0, at), part.rows, part.cols, message.dtype};
}

/// Transfers of one element type in one message.
struct Message {
  std::vector<Transfer> transfers;
  std::int64_t elements = 0;
  DType type = DType::fp32;
};

/// Messages of at most `bucket` bytes, or one transfer; sender and receiver make the same. Numbers without
/// gradients are fp32, all others of `type`.
std::vector<Message> messages_of(const std::vector<Transfer>& transfers, DType type, Bytes bucket) {
  std::vector<Message> made;
  for (const Transfer& each : transfers) {
    const DType own = each.destination->unit == training::kUntrained ? DType::fp32 : type;
    const std::int64_t bytes = size_of(own) * each.elements();
    const bool fits = !made.empty() && made.back().type == own &&
                      made.back().elements * size_of(own) + bytes <= bucket.value;
    if (!fits) made.push_back({{}, 0, own});
    made.back().transfers.push_back(each);
    made.back().elements += each.elements();
  }
  return made;
}

/// The rank's side of a message out and one in; either may be null.
void exchange(const RefitMeans& means, const Message* out, int target, const Side& source, const Message* in,
              int giver, const Side& destination, RefitTraffic& traffic) {
  Operators& operators = means.operators;
  Communicator& communicator = means.ranks;
  const auto buffer = [&](const char* holder, const Message& message) {
    return means.arena.allocate(Category::communication, holder, 1, message.elements, message.type);
  };
  Tensor send, receive;
  Ticket sent, arrived;
  if (in != nullptr) {
    receive = buffer("refit receive buffer", *in);
    arrived = communicator.receive(receive, giver, kRefitTag);
  }
  if (out != nullptr) {
    send = buffer("refit send buffer", *out);
    std::int64_t at = 0;
    for (const Transfer& each : out->transfers) {
      operators.copy(source.memory(*each.source, each.part), packed(send, at, each.part));
      at += each.elements();
    }
    sent = communicator.send(send, target, kRefitTag);
    traffic.sent += send.matrix().bytes();
  }
  communicator.wait(arrived);
  if (in != nullptr) {
    std::int64_t at = 0;
    for (const Transfer& each : in->transfers) {
      operators.copy(packed(receive, at, each.part), destination.memory(*each.destination, each.part));
      at += each.elements();
    }
    traffic.received += receive.matrix().bytes();
  }
  communicator.wait(sent);
}

}  // namespace

RefitTraffic refit(const RefitSide& from, const RefitSide& to, const RefitMeans& means, Bytes bucket) {
  Operators& operators = means.operators;
  const int me = means.ranks.rank();
  const int world = means.ranks.layout().world();
  const DType type = from.config.numerics.precision;
  const ParallelConfig& parallel = from.config.parallel;
  const int zero = parallel.effective_zero_stage();
  Side source(from, zero >= 3 || (zero > 0 && parallel.effective_overlap_param_gather()));
  Side destination(to, false);
  if (to.model != nullptr) {
    operators.fill(to.model->memory.values.vectors, 0);
    operators.fill(to.model->memory.values.matrices, 0);
  }
  RefitTraffic traffic;
  const std::map<int, std::vector<Transfer>> mine = transfers_to(me, source, destination);
  if (const auto own = mine.find(me); own != mine.end()) {
    for (const Transfer& each : own->second) {
      const Matrix place = destination.memory(*each.destination, each.part);
      operators.copy(source.memory(*each.source, each.part), place);
      traffic.copied += place.bytes();
    }
  }
  for (int distance = 1; distance < world; ++distance) {
    const int target = (me + distance) % world;
    const int giver = (me - distance + world) % world;
    std::map<int, std::vector<Transfer>> theirs = transfers_to(target, source, destination);
    const auto received = mine.find(giver);
    const std::vector<Message> out = messages_of(theirs[me], type, bucket);
    const std::vector<Message> in =
        messages_of(received == mine.end() ? std::vector<Transfer>() : received->second, type, bucket);
    for (std::size_t i = 0; i < std::max(out.size(), in.size()); ++i)
      exchange(means, i < out.size() ? &out[i] : nullptr, target, source, i < in.size() ? &in[i] : nullptr,
               giver, destination, traffic);
  }
  return traffic;
}

}  // namespace plumbline::reinforcement
