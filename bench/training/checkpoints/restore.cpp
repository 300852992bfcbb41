#include "bench/training/checkpoints/restore.hpp"

#include "bench/training/checkpoints/held_pieces.hpp"
#include "bench/training/checkpoints/saved_states.hpp"

namespace plumbline::training {
namespace {

void clear_padding(Operators& operators, const ParameterSet& set) {
  operators.fill(set.vectors, 0);
  operators.fill(set.matrices, 0);
}

/// The storage type's values from the fp32 weights, on every rank that holds them.
void round_and_gather(const RankStages& stages) {
  const TrainingContext& context = stages.context();
  const ParameterMemory& memory = stages.memory();
  if (memory.master && !context.frozen) context.operators.copy(memory.master.vectors, memory.values.vectors);
  for (int unit = 0; unit < memory.units(); ++unit) {
    if (memory.unit(unit).frozen) continue;
    const Matrix values = memory.owned(memory.values, unit);
    if (memory.master) context.operators.copy(memory.owned(memory.master, unit), values);
    if (memory.unit(unit).pieces > 1 && !memory.values.sharded)
      context.communicator.all_gather(memory.unit(unit).group, values, memory.whole(memory.values, unit));
  }
}

}  // namespace

void restore(RankStages& stages, const FoundCheckpoint& checkpoint) {
  const SavedStates saved(checkpoint.folder, static_cast<int>(std::ssize(checkpoint.facts.shards)));
  Operators& operators = stages.context().operators;
  const ParameterMemory& memory = stages.memory();
  if (!stages.context().frozen) clear_padding(operators, memory.master ? memory.master : memory.values);
  std::vector<float> host;
  for (const HeldPiece& held : pieces_to_read(stages)) {
    host.resize(static_cast<std::size_t>(held.piece.elements()));
    saved.read(held.state, held.piece, host.data());
    upload_piece(operators, host.data(), held.memory);
  }
  round_and_gather(stages);
  stages.resume_after(checkpoint.facts.step, checkpoint.facts.loss_scale);
}

}  // namespace plumbline::training
