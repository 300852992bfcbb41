// Lifetimes on small tapes, against lists that were worked out by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/training/tape/program.hpp"
#include "bench/training/tape/reverse.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::tape_test {
namespace {

const auto kNothing = [](Pass&) {};

class TapeTest : public testing::Test {
 protected:
  TapeTest() { config_.model = small_qwen2(); }

  /// y = f(x) with an input gradient that reads dy and `input_reads`, and a weight gradient that reads dy, x.
  Slot product(const char* name, Slot x, const std::vector<Slot>& input_reads = {}) {
    const Slot y = tape_.slot(name);
    tape_.add({.forward = {.reads = {x}, .makes = {y}, .run = kNothing}, .backward = [=](Reverse& reverse) {
                 const Slot dy = reverse.gradient(y);
                 const Slot dx = reverse.make(x, "dx");
                 Step input{.reads = input_reads, .makes = {dx}, .run = kNothing};
                 input.reads.push_back(dy);
                 reverse.step(input);
                 reverse.weights({.reads = {dy, x}, .run = kNothing});
               }});
    return y;
  }
  /// The stream x + r, and its norm's backward, which hands the gradient down.
  Slot sum(Slot x, Slot r) {
    const Slot y = tape_.overwritten(r);
    tape_.add(
        {.forward = {.reads = {x, r}, .makes = {y}, .run = kNothing}, .backward = [=](Reverse& reverse) {
           reverse.pass_on(x, reverse.gradient(y));
           reverse.pass_on(r, reverse.gradient(y));
         }});
    return y;
  }

  /// "step: holder holder" for each step after which memory is freed.
  std::vector<std::string> freed(const Program& program) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      std::string line;
      for (const int memory : program.instructions[i].released)
        line += fmt::format(" {}", tape_.memory_of(memory).holder);
      if (!line.empty()) lines.push_back(fmt::format("{}:{}", i, line));
    }
    return lines;
  }

  RunConfig config_;
  const std::unique_ptr<Operators> operators_ = make_cpu_operators();
  SoloCommunicator communicator_;
  Arena arena_{{}, host_memory()};
  Seconds waited_;
  TrainingContext context_{config_, LayerWidths(config_), *operators_, communicator_, arena_, waited_};
  Tape tape_{context_};
};

using testing::ElementsAre;

TEST_F(TapeTest, ATensorLivesToItsLastReader) {
  const Slot x = tape_.slot("x");
  const Slot a = product("a", x);
  const Slot b = product("b", a, {a});
  const Slot given = tape_.slot("db");
  tape_.give_gradient(b, given);
  const Programs made = make_programs(tape_);
  EXPECT_THAT(freed(made.forward), ElementsAre("1: b"));                          // x and a are kept
  EXPECT_THAT(freed(made.backward), ElementsAre("1: a db", "2: dx", "3: x dx"));  // da as soon as dx is there
  EXPECT_THAT(freed(made.input), ElementsAre("1: dx"));                           // what W reads stays
  EXPECT_THAT(freed(made.weight), ElementsAre("0: a db", "1: x dx"));
}

TEST_F(TapeTest, GradientsThatAnotherActionReadsAreActivations) {
  const Slot x = tape_.slot("x");
  const Slot b = product("b", product("a", x));
  tape_.give_gradient(b, tape_.slot("db"));
  make_programs(tape_);
  std::vector<Category> categories;
  for (std::size_t i = 0; i < tape_.memories(); ++i) {
    const SlotMemory& memory = tape_.memory_of(static_cast<int>(i));
    if (std::string(memory.holder) == "dx") categories.push_back(memory.category);
  }
  // B's two, I's two: of a, which W reads, and of x.
  EXPECT_THAT(categories, ElementsAre(Category::workspace, Category::workspace, Category::activations,
                                      Category::workspace));
}

TEST_F(TapeTest, TheStreamsGradientIsOverwrittenInOneActionOnly) {
  for (const bool joint : {true, false}) {
    SCOPED_TRACE(joint);
    Tape tape(context_);
    const Slot x = tape.slot("x");
    const Slot given = tape.slot("dx");
    Reverse reverse(tape, joint, false);
    reverse.pass_on(x, given);
    const Reverse::Sum first = reverse.accumulate(x, "sum", Category::activations);
    EXPECT_EQ(first.in_place, joint);
    EXPECT_EQ(first.after.memory == given.memory, joint);
    EXPECT_TRUE(reverse.accumulate(x, "sum", Category::activations).in_place);  // it is nobody else's
  }
}

TEST_F(TapeTest, MemoryThatAWeightGradientReadsLaterIsNotOverwritten) {
  const Slot x = tape_.slot("x");
  Reverse reverse(tape_, false, false);
  const Slot made = reverse.make(x, "dx");
  reverse.weights({.reads = {made}, .run = kNothing});
  EXPECT_FALSE(reverse.accumulate(x, "sum", Category::activations).in_place);
}

TEST_F(TapeTest, ARecomputedTensorIsFreedAtTheEndOfItsHalfAndMadeAgain) {
  const Slot x = tape_.slot("x");
  tape_.begin_half();
  const Slot n = tape_.slot("n");
  tape_.add({.forward = {.reads = {x}, .makes = {n}, .run = kNothing}, .repeats = true});
  const Slot a = product("a", n);
  const Slot y = sum(x, product("r", a));
  tape_.end_half();
  tape_.add({.forward = {.reads = {y}, .run = kNothing}});
  tape_.give_gradient(y, tape_.slot("dy"));
  const Programs made = make_programs(tape_);
  EXPECT_THAT(freed(made.forward), ElementsAre("3: n", "4: r"));
  EXPECT_EQ(made.backward.instructions.front().repeats, Repeats::module);
  EXPECT_TRUE(made.kept[static_cast<std::size_t>(x.memory)]);
  EXPECT_FALSE(made.kept[static_cast<std::size_t>(n.memory)]);
}

TEST_F(TapeTest, TensorsOfALayersLastProductLiveToItsPlaceWhereItIsNotRepeated) {
  config_.recompute.granularity = Recompute::full;
  const Slot x = tape_.slot("x");
  tape_.begin_group();
  tape_.begin_layer({});
  const Slot m = tape_.slot("m");  // read by the sum alone
  tape_.add({.forward = {.reads = {x}, .makes = {m}, .run = kNothing}});
  const Slot a = product("a", x, {x});
  tape_.begin_last_product();
  const Slot y = sum(m, product("r", a));
  tape_.end_layer({}, {});
  tape_.end_group();
  tape_.add({.forward = {.reads = {y}, .run = kNothing}});
  tape_.give_gradient(y, tape_.slot("dy"));
  const Programs made = make_programs(tape_);
  const std::vector<Program::Instruction>& steps = made.backward.instructions;
  std::size_t repeated = 0;
  while (repeated < steps.size() && steps[repeated].repeats == Repeats::layer) ++repeated;
  ASSERT_EQ(repeated, 6);  // begin, m, a, in place of the product and of the sum, end
  EXPECT_THAT(steps[4].released, ElementsAre(m.memory));
}

TEST_F(TapeTest, TheStreamsGradientLivesToTheEndOfB) {
  const Slot x = tape_.slot("x");
  const Slot place = tape_.slot("place of dx");
  tape_.place_gradient(x, place);
  Reverse reverse(tape_, true, false);
  const Slot given = tape_.slot("dy");
  reverse.pass_on(x, given);
  EXPECT_EQ(reverse.accumulate(x, "sum", Category::activations).after.memory, place.memory);
  reverse.run();
  ASSERT_EQ(reverse.steps.size(), 1);
  EXPECT_EQ(reverse.steps.back().step.reads.front().id, given.id);
}

TEST_F(TapeTest, WithoutABackwardAllButTheResultIsFreedAtALayersEnd) {
  Tape tape(context_, true);
  const Slot x = tape.slot("x");
  tape.begin_layer({});
  const Slot n = tape.slot("n");
  tape.add({.forward = {.reads = {x}, .makes = {n}, .run = kNothing}});
  const Slot y = tape.slot("y");
  tape.add({.forward = {.reads = {n}, .makes = {y}, .run = kNothing}});
  tape.end_layer({}, {});
  const Program made = make_forward(tape, y);
  ASSERT_EQ(made.instructions.size(), 2);
  EXPECT_THAT(made.instructions[0].released, ElementsAre());
  EXPECT_THAT(made.instructions[1].released, testing::UnorderedElementsAre(x.memory, n.memory));
}

TEST_F(TapeTest, AValueIsNotReadOnceItsMemoryHasAnother) {
  const Slot x = tape_.slot("x");
  const Slot y = tape_.overwritten(x);
  tape_.add({.forward = {.makes = {x}, .run = kNothing}});
  tape_.add({.forward = {.reads = {x}, .makes = {y}, .run = kNothing}});
  tape_.add({.forward = {.reads = {x}, .run = kNothing}});
  try {
    make_programs(tape_);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("found a later value in the memory of \"x\""));
  }
}

TEST_F(TapeTest, AGradientInPartsIsItsOwnEntrysToAdd) {
  const Slot x = tape_.slot("x");
  Reverse reverse(tape_, true, false);
  EXPECT_FALSE(reverse.gradient(x));
  reverse.make(x, "dx");
  reverse.make(x, "dx");
  EXPECT_EQ(reverse.parts(x).size(), 2);
  EXPECT_THROW(static_cast<void>(reverse.gradient(x)), Error);
}

}  // namespace
}  // namespace plumbline::training::tape_test
