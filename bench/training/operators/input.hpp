// Lookup of tokens, and their gradient.
#pragma once

#include <functional>
#include <utility>

#include "bench/training/ends/input_end.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Ids (1, T) of a pass.
using TokensOf = std::function<Matrix(const Pass&)>;

/// Embedded tokens, with positions, into `to` (R, h).
void embed(Tape& tape, const InputEnd& end, const TokensOf& tokens, Slot to);
/// Embedded tokens where the shards of a vocabulary look up: `received` (T, h) has come or will.
Slot finish_embedding(Tape& tape, const InputEnd& end, Slot received);
/// At this place in the backward: the gradient of `embedded`, which forward() made, goes to the tables.
void embedding_backward(Tape& tape, const InputEnd& end, const TokensOf& tokens, Slot embedded);

}  // namespace plumbline::training
