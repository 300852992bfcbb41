// Two alternating functions: their order, and their end where one of them fails.
#include "core/run/turns.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/base/error.hpp"

namespace plumbline::turns_test {
namespace {

TEST(Turns, GoOnWhereTheOtherHandsOverOrEnds) {
  struct Case {
    int first, second;  // number of yields
    const char* order;
  };
  for (const auto& [first, second, order] : {Case{2, 2, "aAbBcC"}, Case{0, 2, "aABC"}, Case{3, 1, "aAbBcd"},
                                             Case{1, 0, "aAb"}, Case{0, 0, "aA"}}) {
    Turns turns;
    for (int round = 0; round < 2; ++round) {  // the stack is used again
      std::string seen;
      const auto part = [&](char from, int times, std::size_t number) {
        return [&, from, times, number] {
          for (int i = 0; i <= times; ++i) {
            EXPECT_EQ(turns.current(), number);
            seen += static_cast<char>(from + i);
            if (i < times) turns.hand_over();
          }
        };
      };
      std::string workers;  // 0 or 1, as it is told before each part
      turns.run(part('a', first, 0), part('A', second, 1),
                [&](std::size_t turn) { workers.append(1, turn == 0 ? '0' : '1').append(seen.size(), '.'); });
      EXPECT_EQ(seen, order);
      std::string expected;  // told once for parts in a row of one of them
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const bool small = seen[i] >= 'a';
        if (i == 0 || small != (seen[i - 1] >= 'a')) expected.append(1, small ? '0' : '1').append(i, '.');
      }
      EXPECT_EQ(workers, expected);
      EXPECT_EQ(turns.current(), 0U);
      EXPECT_FALSE(turns.shared());
    }
  }
}

TEST(Turns, EndBothWhereOneThrows) {
  for (const bool second_fails : {false, true}) {
    for (const int after : {0, 1}) {
      Turns turns;
      const auto held = std::make_shared<int>(0);
      const auto fails = [&] {
        const auto mine = held;
        for (int i = 0; i < after; ++i) turns.hand_over();
        throw Error("it fails");
      };
      const auto goes_on = [&] {
        const auto mine = held;
        for (int i = 0; i < 9; ++i) turns.hand_over();
        ADD_FAILURE() << "the other one has failed";
      };
      try {
        if (second_fails) turns.run(goes_on, fails);
        if (!second_fails) turns.run(fails, goes_on);
        ADD_FAILURE() << "expected an Error";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "it fails");
      }
      EXPECT_EQ(held.use_count(), 1) << "what the other one held is gone";
      int ran = 0;
      turns.run([&] { ++ran; }, [&] { ++ran; });
      EXPECT_EQ(ran, 2);
    }
  }
}

}  // namespace
}  // namespace plumbline::turns_test
