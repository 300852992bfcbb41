#include "bench/training/operators/input.hpp"

#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {

void embed(Tape& tape, const InputEnd& end, const TokensOf& tokens, Slot to) {
  const InputEnd* const of = &end;
  tape.add({.forward = {.makes = {to},
                        .run = [=](Pass& pass) { of->forward(tokens(pass), pass.make_stream(to)); },
                        .units = end.units()}});
}

Slot finish_embedding(Tape& tape, const InputEnd& end, Slot received) {
  const InputEnd* const of = &end;
  const Slot x = tape.overwritten(received);
  tape.add({.forward = {.reads = {received},
                        .makes = {x},
                        .run =
                            [=](Pass& pass) {
                              Tensor rows = pass.take(received);
                              of->finish_forward(pass.microbatch, rows);
                              pass.put(x, std::move(rows));
                            },
                        .units = end.units()}});
  return x;
}

void embedding_backward(Tape& tape, const InputEnd& end, const TokensOf& tokens, Slot embedded) {
  if (tape.context.frozen) return;
  const InputEnd* const of = &end;
  tape.add({.backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(embedded);
    reverse.step({.reads = {dy}, .run = [=](Pass& pass) {
                    Tensor gradient = pass.take(dy);
                    of->backward(pass.microbatch, tokens(pass), gradient);
                  }});
  }});
}

}  // namespace plumbline::training
