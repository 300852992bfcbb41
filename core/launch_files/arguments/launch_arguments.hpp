// Arguments of a launch file by name, sorted by the table of their framework.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

class LaunchArguments {
 public:
  /// Sorts `arguments`: keys become settings of `file`, those without effect and those that are not modelled
  /// its remarks; rules and the model's shape are kept to be asked for. The last of several counts, and
  /// values beside the file over its own. Values that the file leaves open are its faults.
  LaunchArguments(const std::vector<LaunchArgument>& arguments, const ArgumentTable& table, LaunchFile& file);

  bool has(const std::string& name) const { return kept_.contains(name); }
  const LaunchArgument* find(const std::string& name) const;
  /// The only value. Throws InputError: place, name, found, expected.
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  double number(const std::string& name, double otherwise) const;
  /// Runs a step of reading, whose InputError becomes one of the file's faults.
  template <class Step>
  void attempt(const Step& step) {
    try {
      step();
    } catch (const InputError& error) {
      file_.faults.emplace_back(error.what());
    }
  }
  /// A switch, given alone or with true or false.
  bool on(const std::string& name) const;

  /// "train.sh:12: --num-layers"; for a name that is not given, the default of the framework.
  std::string origin(const std::string& name) const;
  /// Throws InputError: origin, found, expected.
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;
  /// The same for two arguments that exclude each other, or for one without another: "found with --fp16".
  [[noreturn]] void refuse_with(const std::string& name, const std::string& other,
                                const std::string& expected) const;

  /// Lists the argument among those that are refused; `reason` is a phrase.
  void not_modelled(const std::string& name, const std::string& reason) const;

  /// Lists the argument among those that are predicted nearly as they say.
  void approximated(const std::string& name, const std::string& reason) const;

  /// Lists the argument, which must be given, among those without effect.
  void without_effect(const std::string& name, const std::string& reason) const;

  /// Adds a setting that follows from the argument `from`, or from the framework's default when it is not
  /// given.
  void set(const std::string& key, const std::string& value, const std::string& from);
  /// Adds one that several arguments together say.
  void derive(const std::string& key, const std::string& value, const std::string& origin);
  /// The framework's default, unless the key is already set.
  void set_default(const std::string& key, const std::string& value);
  bool sets(const std::string& key) const;
  std::string setting(const std::string& key, const std::string& otherwise) const;
  LaunchFile& file() const { return file_; }

 private:
  void sort(LaunchArgument argument, const ArgumentTable& table);
  /// The argument with the value beside the file; false: all that it says is given there.
  bool replaced(LaunchArgument& argument, const ArgumentRow& row);

  LaunchFile& file_;
  std::map<std::string, LaunchArgument> kept_;
};

}  // namespace plumbline
