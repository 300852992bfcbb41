// Every JSON text that is one change away from a good one, for tests of readers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace plumbline::test {

/// Calls `visit(text)` with the text and each of its values replaced by one of every kind, or removed; of a
/// list the first two.
inline void each_spoiled(const std::string& text, const std::function<void(const std::string&)>& visit) {
  using Json = nlohmann::ordered_json;
  const Json good = Json::parse(text);
  const Json others[] = {nullptr, -1, 1e300, "x", Json::array(), Json::object(), {{1, "x"}, {2, "y"}}};
  const auto spoil = [&](const Json::json_pointer& at) {
    for (const Json& other : others) {
      Json spoiled = good;
      spoiled[at] = other;
      visit(spoiled.dump());
    }
    if (at.empty()) return;
    Json spoiled = good;
    Json& parent = spoiled[at.parent_pointer()];
    parent.is_object() ? static_cast<void>(parent.erase(at.back()))
                       : static_cast<void>(parent.erase(std::stoul(at.back())));
    visit(spoiled.dump());
  };
  const auto walk = [&](const auto& self, const Json& value, const Json::json_pointer& at) -> void {
    spoil(at);
    if (!value.is_structured()) return;
    for (const auto& [key, member] : value.items()) {
      if (value.is_object()) {
        self(self, member, at / key);
      } else if (key == "0" || key == "1") {  // the others are like these
        self(self, member, at / std::stoul(key));
      }
    }
  };
  walk(walk, good, Json::json_pointer());
}

/// The text, one that is cut off, one that is no UTF-8, and all that each_spoiled() makes: `read(text)`
/// accepts each or throws an Error in our own words.
inline void expect_own_words(const std::string& name, const std::string& text,
                             const std::function<void(const std::string&)>& read) {
  int texts = 0;
  const auto visit = [&](const std::string& each) {
    ++texts;
    try {
      read(each);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find("json.exception"), std::string_view::npos)
          << name << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what() << "\n" << each.substr(0, 2000);
    }
  };
  EXPECT_NO_THROW(read(text)) << name;
  visit(text.substr(0, text.size() / 2));
  visit(text + "\xff");
  visit(text.substr(0, text.rfind('}')) + ", \"x\": 1e999}");
  each_spoiled(text, visit);
  EXPECT_GT(texts, 10) << name;
}

}  // namespace plumbline::test
